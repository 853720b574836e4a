package awssim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// faultJSON is a Fault as the admin API writes it: durations as text ("250ms"), nothing that is unset.
type faultJSON struct {
	Key         string  `json:"key,omitempty"`
	Service     string  `json:"service,omitempty"`
	Action      string  `json:"action,omitempty"`
	Mutating    *bool   `json:"mutating,omitempty"`
	Times       int     `json:"times,omitempty"`
	Before      string  `json:"before,omitempty"`
	After       string  `json:"after,omitempty"`
	Throttle    float64 `json:"throttle,omitempty"`
	Rate        *Rate   `json:"rate,omitempty"`
	Code        string  `json:"code,omitempty"`
	Drop        bool    `json:"drop,omitempty"`
	AfterEffect bool    `json:"afterEffect,omitempty"`
	Hang        bool    `json:"hang,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (f Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(faultJSON{
		f.Key,
		f.Service,
		f.Action,
		f.Mutating,
		f.Times,
		durationText(f.Before),
		durationText(f.After),
		f.Throttle,
		f.Rate,
		f.Code,
		f.Drop,
		f.AfterEffect,
		f.Hang,
	})
}

// UnmarshalJSON implements json.Unmarshaler. It refuses fields that a fault doesn't have.
func (f *Fault) UnmarshalJSON(text []byte) error {
	var j faultJSON
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&j); err != nil {
		return err
	}
	*f = Fault{
		Key:         j.Key,
		Service:     j.Service,
		Action:      j.Action,
		Mutating:    j.Mutating,
		Times:       j.Times,
		Throttle:    j.Throttle,
		Rate:        j.Rate,
		Code:        j.Code,
		Drop:        j.Drop,
		AfterEffect: j.AfterEffect,
		Hang:        j.Hang,
	}
	for name, field := range map[string]struct {
		text string
		into *time.Duration
	}{"before": {j.Before, &f.Before}, "after": {j.After, &f.After}} {
		if field.text == "" {
			continue
		}
		d, err := time.ParseDuration(field.text)
		if err != nil {
			return fmt.Errorf("reading the fault's latency %q: %w", name, err)
		}
		*field.into = d
	}
	return nil
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
