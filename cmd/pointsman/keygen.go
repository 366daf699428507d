package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/urfave/cli/v2"
)

func keygenCommand() *cli.Command {
	return &cli.Command{
		Name:  "keygen",
		Usage: "print a new key for --gossip-keyring",
		Description: "A keyring is a file of such keys, one a line: the first encrypts, all decrypt. To change\n" +
			"the key, add the new one at the end on every host, then move it to the front on every\n" +
			"host, then remove the old one. The agent reads the file again when it changes.",
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			key := make([]byte, 32)
			_, _ = rand.Read(key) // it never fails (Go 1.24)
			_, err := fmt.Fprintln(c.App.Writer, base64.StdEncoding.EncodeToString(key))
			return err
		},
	}
}
