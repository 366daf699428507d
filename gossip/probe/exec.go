package probe

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"pointsman/state"
)

// maxOutput is how much of a command's output is kept, in bytes.
const maxOutput = 10 << 10

// exec runs a command, which is told the endpoint in its environment. It gets
// none of the agent's own environment but PATH. At the timeout it's killed with
// all that it started, as far as that stayed in its process group.
func (x *executor) exec(ctx context.Context, target netip.AddrPort, command []string) outcome {
	if !x.allowExec {
		return failed(state.OtherFailure, "exec probes are not allowed on this host (--allow-exec-probes)")
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"POINTSMAN_ADDRESS=" + target.Addr().String(),
		"POINTSMAN_PORT=" + strconv.Itoa(int(target.Port())),
	}
	cmd.Dir = "/"
	output := &head{}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond // for whoever left the group and holds the pipe
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil:
		return outcome{} // it ended well, and left something running
	case ctx.Err() != nil:
		return failed(state.TimedOut, "killed at the timeout: %s", output.text)
	case errors.As(err, &exit):
		return failed(state.ExitCode, "%v: %s", err, output.text)
	}
	return classify(err, state.OtherFailure)
}

// head keeps the beginning of what is written to it.
type head struct{ text []byte }

func (h *head) Write(b []byte) (int, error) {
	h.text = append(h.text, b[:min(len(b), maxOutput-len(h.text))]...)
	return len(b), nil
}
