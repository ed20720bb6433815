package volume

import "golang.org/x/sys/unix"

// networks maps the numbers of network file systems to their names.
var networks = map[uint32]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC: "SMB",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.AFS_FS_MAGIC:     "AFS",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.V9FS_MAGIC:       "9P",
	unix.CODA_SUPER_MAGIC: "Coda",
	0x0bd00bd0:            "Lustre",
	0x01161970:            "GFS2",
	0x47504653:            "GPFS",
}

// networkFS returns the name of the network file system that dir is on, or "".
func networkFS(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	return networks[uint32(st.Type)]
}
