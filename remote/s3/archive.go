package s3

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/kist-vcs/kist/remote"
)

// thawTimes has the classes of Amazon's archives, with the longest time that a thaw by the tier "Standard" usually takes.
// Objects of all other classes can be read at once, unless Amazon has moved them to an archive itself.
var thawTimes = map[string]time.Duration{"GLACIER": 5 * time.Hour, "DEEP_ARCHIVE": 12 * time.Hour}

// movedTimes are the same times of the archives of INTELLIGENT_TIERING, by the header of an object in one.
var movedTimes = map[string]time.Duration{"ARCHIVE_ACCESS": 5 * time.Hour, "DEEP_ARCHIVE_ACCESS": 12 * time.Hour}

// parseClass returns the class of a URL. Stores have classes of their own, so it accepts any name that could be one: the check of
// a store tries it.
func parseClass(value string) (string, error) {
	switch {
	case value == "", len(value) > 64, strings.Trim(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "":
		return "", errors.New("class is not the name of a class of storage; such names have capital letters, as GLACIER_IR or DEEP_ARCHIVE")
	case value == "STANDARD":
		return "", nil
	}
	return value, nil
}

// Class implements [remote.Archiver].
func (b *Backend) Class() string { return b.class }

// ArchiveState implements [remote.Archiver] by a HEAD request.
func (b *Backend) ArchiveState(ctx context.Context, name string) (remote.ArchiveState, error) {
	if err := remote.CheckName(name); err != nil {
		return remote.ArchiveState{}, err
	}
	var state remote.ArchiveState
	err := b.callStore(ctx, "stat", name, func(ctx context.Context, client *minio.Core, a *answer) error {
		object, err := client.StatObject(ctx, b.bucket, b.prefix+name, minio.StatObjectOptions{})
		if err == nil {
			state = readState(a.header, object.Restore)
		}
		return err
	})
	return state, err
}

// readState returns the state of an object by the header of an answer. Restore is nil if nobody has asked for a copy.
func readState(h http.Header, restore *minio.RestoreInfo) remote.ArchiveState {
	state := remote.ArchiveState{Class: h.Get("X-Amz-Storage-Class")}
	takes, moved := movedTimes[h.Get("X-Amz-Archive-Status")]
	if !moved {
		takes = thawTimes[state.Class]
	}
	state.Takes = takes
	state.Thawing = restore != nil && restore.OngoingRestore
	state.Archived = takes > 0 && (restore == nil || restore.OngoingRestore)
	return state
}

// Thaw implements [remote.Archiver].
func (b *Backend) Thaw(ctx context.Context, name string, days int) error {
	if err := remote.CheckName(name); err != nil {
		return err
	}
	state, err := b.ArchiveState(ctx, name)
	if err != nil || state.Thawing || state.Takes == 0 {
		return err
	}
	request := minio.RestoreRequest{GlacierJobParameters: &minio.GlacierJobParameters{Tier: minio.TierStandard}}
	if thawTimes[state.Class] > 0 { // otherwise the object moves out of the archive for good
		request.SetDays(days)
	}
	return b.callStore(ctx, "thaw", name, func(ctx context.Context, client *minio.Core, _ *answer) error {
		err := client.RestoreObject(ctx, b.bucket, b.prefix+name, "", request)
		if minio.ToErrorResponse(err).Code == "RestoreAlreadyInProgress" {
			return nil // another client has asked since
		}
		return err
	})
}
