package frame

// The probe compresses a sample of data that is longer than probeFrom bytes:
// 16 KiB from 8 places. That takes a few microseconds, whatever the length.
const (
	probeFrom   = 64 << 10
	probePlaces = 8
	probeWindow = 2 << 10
)

// probe reports whether src may be worth compressing. Media, archives and
// encrypted data give 0 to 1 % in the sample, which spares the attempt.
func (w *worker) probe(src []byte) bool {
	if len(src) < probeFrom {
		return true
	}
	w.sample = w.sample[:0]
	step := (len(src) - probeWindow) / (probePlaces - 1)
	for i := range probePlaces {
		w.sample = append(w.sample, src[i*step:i*step+probeWindow]...)
	}
	w.out = w.zstd.EncodeAll(w.sample, w.out[:0])
	return len(w.out) < len(w.sample)-len(w.sample)>>6
}
