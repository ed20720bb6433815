package remotetest

import (
	"testing"

	"github.com/kist-vcs/kist/remote"
)

func TestMemory(t *testing.T) {
	Run(t, func(*testing.T) remote.Backend { return NewMemory() })
}

func TestFaultyWithoutFaults(t *testing.T) {
	Run(t, func(*testing.T) remote.Backend { return NewFaulty(NewMemory()) })
}
