package main

import (
	"math"
	"slices"
)

// metric is one of the figures of a sample.
type metric func(Sample) float64

func seconds(s Sample) float64  { return s.Seconds }
func cpu(s Sample) float64      { return s.cpu() }
func peak(s Sample) float64     { return float64(s.Peak) }
func stored(s Sample) float64   { return float64(s.Stored) }
func sent(s Sample) float64     { return float64(s.Sent) }
func received(s Sample) float64 { return float64(s.Received) }
func requests(s Sample) float64 { return float64(s.Requests) }

// median returns the median of values, or NaN without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// medianOf returns the median of a metric of samples.
func medianOf(samples []Sample, m metric) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = m(s)
	}
	return median(values)
}

// medianSample returns a sample with the median of each metric.
func medianSample(samples []Sample) Sample {
	return Sample{
		Seconds:    medianOf(samples, seconds),
		User:       medianOf(samples, func(s Sample) float64 { return s.User }),
		System:     medianOf(samples, func(s Sample) float64 { return s.System }),
		Background: medianOf(samples, func(s Sample) float64 { return s.Background }),
		Peak:       int64(medianOf(samples, peak)),
		Stored:     int64(medianOf(samples, stored)),
		Sent:       int64(medianOf(samples, sent)),
		Received:   int64(medianOf(samples, received)),
		Requests:   int64(medianOf(samples, requests)),
	}
}

// ratio returns the median of the ratios of ours to theirs. Each ratio is of two samples of the
// same round and step, because a slow phase of the machine affects both. It returns NaN if no
// two samples match.
func ratio(ours, theirs []Sample, m metric) float64 {
	var ratios []float64
	for _, a := range ours {
		for _, b := range theirs {
			if a.Round == b.Round && a.Step == b.Step && m(b) > 0 {
				ratios = append(ratios, m(a)/m(b))
			}
		}
	}
	return median(ratios)
}

// best returns the result with the least median of a metric, or nil. It ignores medians of zero.
func best(results []*Result, m metric) *Result {
	var found *Result
	for _, r := range results {
		if v := medianOf(r.Samples, m); v > 0 && (found == nil || v < medianOf(found.Samples, m)) {
			found = r
		}
	}
	return found
}
