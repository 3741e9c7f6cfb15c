package telemetry

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// newSampler returns the function that samples new traces, from the name of a sampler of the OpenTelemetry specification and
// its ratio. The parent's decision applies to a trace that has one, with or without the prefix parentbased_: a parent is a
// process of this program, or an ingress that the configuration trusts.
func newSampler(sampler, argument string) (func() bool, error) {
	switch strings.TrimPrefix(sampler, "parentbased_") {
	case "", "always_on":
		return func() bool { return true }, nil
	case "always_off":
		return func() bool { return false }, nil
	case "traceidratio":
		ratio := 1.0
		if argument != "" {
			var err error
			if ratio, err = strconv.ParseFloat(argument, 64); err != nil || ratio < 0 || ratio > 1 {
				return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is not a number from 0 to 1", argument)
			}
		}
		return func() bool { return rand.Float64() < ratio }, nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER: %q is none of always_on, always_off, traceidratio, or these with parentbased_ before them", sampler)
	}
}
