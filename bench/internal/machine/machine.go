//go:build linux

// Package machine tells what a figure was measured on: processor, kernel, file system, load, commit.
package machine

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Machine describes where and on what a run was made.
type Machine struct {
	CPU        string
	Cores      int
	MemoryGiB  float64
	Kernel     string
	FileSystem string // of the data directories
	Go         string
	Commit     string // of the working tree, with -dirty if it differs
	Start      time.Time
}

// Describe reads the machine's facts; what cannot be read is "unknown". dir is where data is written.
func Describe(ctx context.Context, dir string) Machine {
	m := Machine{CPU: "unknown", Kernel: "unknown", FileSystem: "unknown", Commit: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version(), Start: time.Now()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = fieldOf(text, "model name", ":", m.CPU)
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		kib, _ := strconv.ParseFloat(strings.TrimSuffix(fieldOf(text, "MemTotal", ":", "0"), " kB"), 64)
		m.MemoryGiB = kib / (1 << 20)
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err == nil {
		m.FileSystem = fileSystemName(int64(fs.Type))
	}
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(out))
	}
	return m
}

func fileSystemName(magic int64) string {
	names := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: "tmpfs (no disk: figures say nothing about durability)", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs"}
	if name, ok := names[magic]; ok {
		return name
	}
	return fmt.Sprintf("type %#x", magic)
}

func fieldOf(text []byte, name, separator, otherwise string) string {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}

// String is one line for people.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %.0f GiB, Linux %s, %s, %s, commit %s", m.CPU, m.Cores, m.MemoryGiB, m.Kernel, m.FileSystem, m.Go, m.Commit)
}

// Load is the load average of the last minute, -1 when not known. Above the number of cores others take part in the measurement.
func Load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return load
}

// Stretch is a time in which a measurement was made.
type Stretch struct{ busy, all int64 }

// Begin begins a stretch.
func Begin() Stretch {
	busy, all := cpuTicks()
	return Stretch{busy, all}
}

// Others is the share of all cores (0 to 1) that was in use since the stretch began and is not own, the processor time of the
// measured processes. It has the grain of the kernel's ticks, 10 ms.
func (s Stretch) Others(own time.Duration) float64 {
	busy, all := cpuTicks()
	if all == s.all {
		return 0
	}
	return max(0, float64(busy-s.busy)-own.Seconds()*ticksPerSecond) / float64(all-s.all)
}

// WaitQuiet waits, at most two minutes, until others use less than share of all cores while the caller does nothing.
func WaitQuiet(ctx context.Context, share float64) {
	for end := time.Now().Add(2 * time.Minute); share < 1 && ctx.Err() == nil && time.Now().Before(end); {
		idle := Begin()
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
		if idle.Others(0) < share {
			return
		}
	}
}

// cpuTicks reads the machine's busy and whole processor time. Source: proc(5), /proc/stat, columns user nice system idle iowait ...
func cpuTicks() (busy, all int64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || i > 8 { // guest time is in user time already
			continue
		}
		all += n
		if i != 4 && i != 5 {
			busy += n
		}
	}
	return busy, all
}

// OwnCPU is the processor time this process has used.
func OwnCPU() time.Duration { return usage(syscall.RUSAGE_SELF) }

// ChildrenCPU is the processor time of the children that have ended.
func ChildrenCPU() time.Duration { return usage(syscall.RUSAGE_CHILDREN) }

func usage(who int) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(who, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// ticksPerSecond is the unit of /proc/PID/stat; Linux fixes it at 100 for user space on every architecture that Go runs on.
const ticksPerSecond = 100

// CPUOf is the processor time the process pid has used; 0 when it cannot be read.
func CPUOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold spaces; the fields are counted behind it: state is the first, utime the 12th.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// ResidentMiB is the resident memory of the process pid; 0 when it cannot be read.
func ResidentMiB(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	kib, _ := strconv.ParseFloat(strings.TrimSuffix(fieldOf(text, "VmRSS", ":", "0"), " kB"), 64)
	return kib / 1024
}
