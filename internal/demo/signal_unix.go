//go:build unix

package demo

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// canStop says that processes can be stopped and continued here.
const canStop = true

// ownGroup keeps the terminal's Ctrl-C from the children: the parent drains them. Should the parent die while a child is
// stopped, the kernel continues the orphaned group, and the child finds its input at its end.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func (p *process) stop() error { return p.signal(syscall.SIGSTOP) }

func (p *process) resume() error { return p.signal(syscall.SIGCONT) }

func (p *process) signal(s syscall.Signal) error {
	if err := p.command.Process.Signal(s); err != nil {
		return fmt.Errorf("send %v to %s: %w", s, p.name, err)
	}
	return nil
}

// killed reports whether SIGKILL ended the process.
func killed(exit error) bool {
	var e *exec.ExitError
	if !errors.As(exit, &e) {
		return false
	}
	status, ok := e.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
