//go:build !unix

package demo

import (
	"errors"
	"os/exec"
)

// canStop says that processes can be stopped and continued here.
const canStop = false

func ownGroup(*exec.Cmd) {}

func (p *process) stop() error { return errors.ErrUnsupported }

func (p *process) resume() error { return errors.ErrUnsupported }

// killed reports whether the process ended otherwise than by itself.
func killed(exit error) bool {
	var e *exec.ExitError
	return errors.As(exit, &e) && e.ExitCode() != 0
}
