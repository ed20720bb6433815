package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// The exit statuses of kist. The numbers are an interface: scripts decide on them.
const (
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2
	exitPartial      = 3
	exitNoRepository = 10
	exitDamaged      = 11
	exitFormat       = 12
	exitMoved        = 13
	exitBusy         = 14
	exitRemote       = 15
	exitCredentials  = 16
	exitInterrupted  = 130
)

// exitStatus describes an exit status: the kind that an error with it has by default, and
// its meaning in a few words.
type exitStatus struct {
	status  int
	kind    string
	meaning string
}

var exitStatuses = []exitStatus{
	{exitOK, "", "done"},
	{exitFailed, "failed", "failed"},
	{exitUsage, "usage", "the command line is wrong"},
	{exitPartial, "partial", "completed with errors: files skipped or conflicts"},
	{exitNoRepository, "no-repository", "no repository here"},
	{exitDamaged, "damaged", "stored data is damaged"},
	{exitFormat, "format", "the repository needs a newer kist"},
	{exitMoved, "moved", "a branch moved meanwhile, or the update is not a fast-forward"},
	{exitBusy, "busy", "another kist process holds the lock"},
	{exitRemote, "remote", "remote error"},
	{exitCredentials, "credentials", "credentials missing or not accepted"},
	{exitInterrupted, "interrupted", "interrupted"},
}

// exitAnnotation is the annotation with the exit statuses of a command beyond the usual
// ones.
const exitAnnotation = "kist-exit"

// mayExit records exit statuses of cmd beyond 0, 1, 2 and 130, for its help and its manual
// page.
func mayExit(cmd *cobra.Command, statuses ...int) {
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
	exits := []int{exitOK, exitFailed, exitUsage, exitInterrupted}
	for _, mark := range []byte(cmd.Annotations[exitAnnotation]) {
		exits = append(exits, int(mark))
	}
	slices.Sort(exits)
	return slices.Compact(exits)
}

// exitStatusOf returns the description of a status.
func exitStatusOf(status int) exitStatus {
	i := slices.IndexFunc(exitStatuses, func(s exitStatus) bool { return s.status == status })
	return exitStatuses[i]
}
