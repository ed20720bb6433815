package transfer

import "sync"

// Phases of a push or fetch.
const (
	PhasePlan = "plan" // finds out what is missing at the other end; a fetch receives nodes meanwhile
	PhaseCopy = "copy" // moves what is missing
)

// Progress says how far a push or fetch is.
type Progress struct {
	Phase string // one of the Phase constants

	// Moved so far, and, once that is known, to be moved in all; 0: not known.
	Objects, TotalObjects int64
	Bytes, TotalBytes     int64
}

// meter keeps count of progress, and tells of it.
type meter struct {
	tell func(Progress) // may be nil

	mu sync.Mutex // held while tell is called
	at Progress
}

// update changes what is known of the progress.
func (m *meter) update(change func(*Progress)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.at)
	if m.tell != nil {
		m.tell(m.at)
	}
}
