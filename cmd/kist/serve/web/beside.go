package web

import "context"

// beside runs work that stops only between two of its steps, such as a parser of hostile text.
// Each running work has one of the places until it ends. Beside returns false if ctx ends
// earlier: the caller does without the result.
func beside[T any](ctx context.Context, places chan struct{}, work func(ctx context.Context) T) (result T, ok bool) {
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return result, false
	}

	done := make(chan T, 1)
	go func() {
		defer func() { <-places }()
		done <- work(ctx)
	}()
	select {
	case result = <-done:
		return result, true
	case <-ctx.Done():
		return result, false
	}
}
