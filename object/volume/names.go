package volume

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/kist-vcs/kist/object/disk"
)

// Names below .kist.
const (
	volumesDir      = "volumes"
	gcLockFile      = "gc.lock"
	maintenanceFile = "maintenance.lock"
)

// gcLockWait is the longest wait for the lock on publishing and removing. Every process
// holds it for moments only. A process that gives up has to start over.
const gcLockWait = time.Hour

// Names below volumes/. Each is followed by a ULID, and a sealed volume is a
// ULID alone. The lock of a volume that is written or salvaged is tmp-<ulid>.lock
// whatever its folder is called at the time.
const (
	tmpPrefix     = "tmp-"
	salvagePrefix = "salvage-"
	trashPrefix   = "trash-"
	lockSuffix    = ".lock"
)

// Names in a volume. Value logs are <6 digits>.vlog, tables <6 digits>.sst.
const (
	keysFile     = "KEYS"
	sealName     = "SEAL"
	manifestFile = "MANIFEST"
	trashFile    = "TRASH"
	logSuffix    = ".vlog"
	tableSuffix  = ".sst"
	memSuffix    = ".mem"
)

// newName returns the name of a new volume.
func newName(now time.Time, random io.Reader) (string, error) {
	id, err := ulid.New(ulid.Timestamp(now), random)
	if err != nil {
		return "", fmt.Errorf("name a volume: %w", err)
	}
	return id.String(), nil
}

// isName reports whether name is that of a volume: a ULID in canonical form.
func isName(name string) bool {
	id, err := ulid.ParseStrict(name)
	return err == nil && id.String() == name
}

// nameTime returns the time in the name of a volume.
func nameTime(name string) time.Time {
	id, err := ulid.ParseStrict(name)
	if err != nil {
		return time.Time{}
	}
	return id.Timestamp()
}

func logName(number uint32) string { return fmt.Sprintf("%06d"+logSuffix, number) }

// logNumber returns the number of a value log, and whether name is one of a value log.
func logNumber(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, logSuffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), ok && err == nil && logName(uint32(n)) == name
}

func isTable(name string) bool {
	digits, ok := strings.CutSuffix(name, tableSuffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	return ok && err == nil && fmt.Sprintf("%06d"+tableSuffix, n) == name
}

// syncDir makes the entries of a directory durable.
func syncDir(path string) error {
	d, err := disk.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// makeVolumesDir makes volumes/, durably, if it does not exist.
func makeVolumesDir(kistDir string) error {
	err := disk.Mkdir(filepath.Join(kistDir, volumesDir), 0o777)
	if os.IsExist(err) {
		return nil
	}
	if err == nil {
		err = syncDir(kistDir)
	}
	return err
}

// renameChecked renames a directory to a name that must not exist, on systems that cannot
// do both in one step. A rename never replaces a directory with content.
func renameChecked(from, to string) error {
	if _, err := disk.Lstat(to); !os.IsNotExist(err) {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: os.ErrExist}
	}
	return disk.Rename(from, to)
}
