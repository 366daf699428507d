package lab

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopTime is how long Stop waits for a process to end by itself.
const stopTime = 10 * time.Second

// Process is a long-running program on a host.
type Process struct {
	cmd    *exec.Cmd
	host   *Host
	name   string
	output output
	done   chan struct{}
	err    error // of Wait, once done is closed
}

// Start starts a program on the host. It is killed when the lab is closed, or
// with this process, and under a failed test its output is logged.
func (h *Host) Start(name string, args ...string) (*Process, error) {
	p := &Process{host: h, name: name, done: make(chan struct{})}
	p.cmd = h.Command(context.Background(), name, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = time.Second // a grandchild may hold the pipe open
	// A group of its own, so that Ctrl-C reaches the demo alone.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("lab: starting %s on %s: %w", name, h.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	h.lab.processes = append(h.lab.processes, p)
	return p, nil
}

// String tells the program and its host.
func (p *Process) String() string { return p.name + " on " + p.host.Name }

// Pid is the program's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the program: nil is exit status 0.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Output is what the program has printed so far, on both outputs.
func (p *Process) Output() string { return p.output.String() }

// Signal sends a signal to the program.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the program at once, as kill -9 does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Stop ends the program as systemd does: SIGTERM, and SIGKILL when that does
// not help, which is an error.
func (p *Process) Stop() error {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopTime):
		p.Kill()
		return fmt.Errorf("lab: %s: still there %s after SIGTERM", p, stopTime)
	}
}

// output collects what a program prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.ToValidUTF8(o.buf.String(), "?")
}
