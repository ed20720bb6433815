package transfer

import "sync"

// Phases of a push or fetch.
const (
	PhasePlan = "plan" // finds the objects that the other end does not have; a fetch receives nodes meanwhile
	PhaseCopy = "copy" // moves these objects
)

// Progress is the progress of a push or fetch.
type Progress struct {
	Phase string // one of the Phase constants

	// Moved so far, and to be moved in all; 0: not known yet.
	Objects, TotalObjects int64
	Bytes, TotalBytes     int64
}

// meter counts the progress and reports it.
type meter struct {
	tell func(Progress) // may be nil

	mu sync.Mutex // held while tell is called
	at Progress
}

// update changes the progress.
func (m *meter) update(change func(*Progress)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.at)
	if m.tell != nil {
		m.tell(m.at)
	}
}
