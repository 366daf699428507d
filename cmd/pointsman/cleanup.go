package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"pointsman/gossip"
	"pointsman/reconcile"
	"pointsman/state/manifest"
)

func cleanupCommand() *cli.Command {
	return &cli.Command{
		Name:  "cleanup",
		Usage: "remove everything that pointsman put on this host",
		Description: "Removes the nftables tables \"ip pointsman\" and \"ip6 pointsman\" and the state directory.\n" +
			"Open connections by way of a Service are cut off, unless other nat rules on this host\n" +
			"keep the kernel translating. Doing it twice is no error. It is refused while the agent\n" +
			"runs, which would repair its tables.",
		Flags:        []cli.Flag{configFlag(), stringFlag("state-dir", defaultStateDir, "the agent's state `DIR`"), socketFlag()},
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       cleanup,
	}
}

func cleanup(c *cli.Context) error {
	if err := noArgs(c); err != nil {
		return err
	}
	if err := reconcile.Permitted(); err != nil {
		return fmt.Errorf("cleanup: %w", err)
	}
	dir := c.String("state-dir")
	unlock, err := lockState(dir)
	if errors.Is(err, errRunning) {
		return fmt.Errorf("%w; stop it first", err)
	}
	if err != nil {
		return err
	}
	defer unlock()
	unlockHost, err := lockHost()
	if err != nil {
		return fmt.Errorf("%w; stop it first", err)
	}
	defer unlockHost()
	busy := newActivity(c)
	defer busy.done()
	busy.say("removing the tables")
	if err := reconcile.Cleanup(c.Context); err != nil {
		return err
	}
	return errors.Join(removeSocket(c.String("socket")), removeState(dir))
}

// removeSocket removes what an agent that was killed left behind.
func removeSocket(path string) error {
	if info, err := os.Stat(path); err != nil || info.Mode()&fs.ModeSocket == 0 {
		return nil
	}
	return os.Remove(path)
}

// removeState removes the files that the agent makes, and the directory if
// nothing else is in it (it may have been given wrongly), nor mounted there.
func removeState(dir string) error {
	names := append(gossip.StateFiles(), lockFile)
	for _, name := range []string{lastGoodFile, pastFile, connectionsFile, rulesName} {
		names = append(names, name, manifest.Unfinished(name))
	}
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("state directory: %w", err)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, maintenanceDir)); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	err := os.Remove(dir)
	if others := errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EBUSY); err != nil && !others && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}
