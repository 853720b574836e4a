package main

import (
	"bytes"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/mask/canary"
)

func TestNothingThatTheProcessLogsShowsASecretOfAnError(t *testing.T) {
	secrets, planted := canary.PlantError()
	var out bytes.Buffer
	klog.SetLoggerWithOptions(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out))), klog.ContextualLogger(true))
	t.Cleanup(klog.ClearLogger)
	maskLogs()
	for name, log := range map[string]func(){
		"the operator's own":  func() { klog.Background().Error(planted, "A look has failed", "why", planted) },
		"a library's":         func() { klog.ErrorS(planted, "A watch has failed", "why", planted) },
		"a library's, line":   func() { klog.Errorf("a watch has failed: %v", planted) },
		"a library's warning": func() { klog.Warning("a watch has failed: ", planted) },
		"of a context":        func() { klog.FromContext(t.Context()).Info("A watch has failed", "error", planted) },
	} {
		t.Run(name, func(t *testing.T) {
			out.Reset()
			log()
			if found := secrets.In(out.String()); len(found) > 0 || !bytes.Contains(out.Bytes(), []byte(mask.Masked)) {
				t.Errorf("it shows the secret of %q, or nothing at all:\n%s", found, &out)
			}
		})
	}
}
