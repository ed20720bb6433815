package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// The exit statuses of kist. The numbers are an interface: scripts decide on them.
const (
	ExitOK           = 0
	ExitFailed       = 1
	ExitUsage        = 2
	ExitPartial      = 3
	ExitNoRepository = 10
	ExitDamaged      = 11
	ExitFormat       = 12
	ExitMoved        = 13
	ExitBusy         = 14
	ExitRemote       = 15
	ExitCredentials  = 16
	ExitInterrupted  = 130
)

// exitStatus describes an exit status: the kind that an error with it has by default, and
// its meaning in a few words.
type exitStatus struct {
	Status  int
	Kind    string
	Meaning string
}

var ExitStatuses = []exitStatus{
	{ExitOK, "", "done"},
	{ExitFailed, "failed", "failed"},
	{ExitUsage, "usage", "the command line is wrong"},
	{ExitPartial, "partial", "completed with errors: files skipped or conflicts"},
	{ExitNoRepository, "no-repository", "no repository here"},
	{ExitDamaged, "damaged", "stored data is damaged"},
	{ExitFormat, "format", "the repository needs a newer kist"},
	{ExitMoved, "moved", "a branch moved meanwhile, or the update is not a fast-forward"},
	{ExitBusy, "busy", "another kist process holds the lock"},
	{ExitRemote, "remote", "remote error"},
	{ExitCredentials, "credentials", "credentials missing or not accepted"},
	{ExitInterrupted, "interrupted", "interrupted"},
}

// exitAnnotation is the annotation with the exit statuses of a command beyond the usual
// ones.
const exitAnnotation = "kist-exit"

// MayExit records exit statuses of cmd beyond 0, 1, 2 and 130, for its help and its manual
// page.
func MayExit(cmd *cobra.Command, statuses ...int) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	marks := []byte(cmd.Annotations[exitAnnotation])
	for _, status := range statuses {
		marks = append(marks, byte(status))
	}
	cmd.Annotations[exitAnnotation] = string(marks)
}

// exitsOf returns the exit statuses of cmd in ascending order.
func exitsOf(cmd *cobra.Command) []int {
	exits := []int{ExitOK, ExitFailed, ExitUsage, ExitInterrupted}
	for _, mark := range []byte(cmd.Annotations[exitAnnotation]) {
		exits = append(exits, int(mark))
	}
	slices.Sort(exits)
	return slices.Compact(exits)
}

// exitStatusOf returns the description of a status.
func exitStatusOf(status int) exitStatus {
	i := slices.IndexFunc(ExitStatuses, func(s exitStatus) bool { return s.Status == status })
	return ExitStatuses[i]
}
