package check

import (
	"strings"
	"testing"
)

// TestTheTextsPromiseWhatIsBuilt holds the texts to what the engine and the plans do: each phrase stood in one of them and was not so.
func TestTheTextsPromiseWhatIsBuilt(t *testing.T) {
	for phrase, why := range map[string]string{
		"and stops when they rise":                               "no step reads the series of LM-014",
		"DisableCloudProviders, which a migration sets":          "a plan removes this gate, and sets it only if it is asked to",
		"by apply before its first step in any case":             "apply sends no dry run",
		"makes tokens for its loops (--use-service-account":      "a plan's manager runs with --use-service-account-credentials=false",
		"does not call an empty list done":                       "a plan knows no machines",
		"handover does not start before the new manager has rea": "an official manager says nothing of the cloud while it has made no call",
	} {
		for _, c := range List() {
			text, ok := Explain(c.Code)
			if !ok {
				t.Fatalf("%s cannot be explained", c.Code)
			}
			if strings.Contains(text, phrase) {
				t.Errorf("%s says %q: %s", c.Code, phrase, why)
			}
		}
	}
}
