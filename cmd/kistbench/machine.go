package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// Machine describes the machine of a run. Unknown fields are empty.
type Machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"` // usable by this process
	Memory     int64  `json:"memory_bytes"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"file_system"` // of the working folder
	Arch       string `json:"arch"`
	Go         string `json:"go"` // its version
}

// thisMachine describes this machine and the file system of dir.
func thisMachine(ctx context.Context, dir string) Machine {
	m := Machine{
		Cores: runtime.GOMAXPROCS(0), Arch: runtime.GOARCH, Go: runtime.Version(),
		Kernel: printed(ctx, "uname", "-sr"), FileSystem: strings.TrimSpace(strings.TrimPrefix(printed(ctx, "df", "--output=fstype", dir), "Type")),
	}
	if runtime.GOOS == "darwin" {
		m.CPU = printed(ctx, "sysctl", "-n", "machdep.cpu.brand_string")
		m.Memory, _ = strconv.ParseInt(printed(ctx, "sysctl", "-n", "hw.memsize"), 10, 64)
		return m
	}
	m.CPU = field("/proc/cpuinfo", "model name")
	if kb, _, ok := strings.Cut(field("/proc/meminfo", "MemTotal"), " kB"); ok {
		n, _ := strconv.ParseInt(kb, 10, 64)
		m.Memory = n << 10
	}
	return m
}

// printed returns the output of a program, or nothing if it fails.
func printed(ctx context.Context, program string, args ...string) string {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// field returns the value of the first line "name: value" of a file.
func field(path, name string) string {
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
