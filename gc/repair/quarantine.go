package repair

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
)

// quarantine copies a file into the quarantine folder, so that a wrong repair
// can be undone. File is a path below the .kist folder. It does nothing if the
// file does not exist.
func (p *repairer) quarantine(file string) error {
	if _, err := disk.Lstat(p.path(file)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := p.makeQuarantine(); err != nil {
		return err
	}
	to := p.quarantineDir + "/" + file
	if err := copyFile(p.path(file), p.path(to)); err != nil {
		return err
	}
	p.result.Quarantined = append(p.result.Quarantined, Quarantined{File: file, To: to})
	return nil
}

// path returns the path of a file below the .kist folder.
func (p *repairer) path(file string) string {
	return filepath.Join(p.repo.Dir(), filepath.FromSlash(file))
}

// makeQuarantine makes the quarantine folder of this repair.
func (p *repairer) makeQuarantine() error {
	if p.quarantineDir != "" {
		return nil
	}
	if err := disk.MkdirAll(p.path(volume.QuarantineDir), 0o777); err != nil {
		return err
	}

	base := volume.QuarantineDir + "/files-" + p.repo.Options().Now().UTC().Format("20060102T150405Z")
	for name := base; ; name += "x" {
		err := disk.Mkdir(p.path(name), 0o777)
		if err == nil {
			p.quarantineDir = name
			return errors.Join(disk.SyncDir(p.path(volume.QuarantineDir)), disk.SyncDir(p.repo.Dir()))
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// copyFile copies a regular file durably to a new path. It moves anything
// else.
func copyFile(from, to string) error {
	dir, name := filepath.Split(to)
	if err := makeFolders(filepath.Clean(dir)); err != nil {
		return err
	}

	info, err := disk.Lstat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return disk.Rename(from, to)
	}

	f, err := disk.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return disk.Write(dir, name+".tmp", func(w io.Writer) (string, error) {
		_, err := io.Copy(w, f)
		return name, err
	})
}

// makeFolders makes a folder and its missing parents, durably.
func makeFolders(dir string) error {
	err := disk.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeFolders(filepath.Dir(dir)); err == nil {
			err = disk.Mkdir(dir, 0o777)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return errors.Join(err, disk.SyncDir(filepath.Dir(dir)))
}
