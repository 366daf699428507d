// Command filter runs a program that may make only some system calls; the
// others fail with EPERM, as systemd's SystemCallFilter has it. Its arguments are
// a file with the numbers, the program's path, and its arguments.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread() // the filter is the thread's, and so is exec
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "filter:", err)
		os.Exit(1)
	}
}

func run(list string, command []string) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	// The number is at offset 0 of struct seccomp_data.
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}
	for _, field := range strings.Fields(string(text)) {
		number, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return err
		}
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(number)},
			unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return unix.Exec(command[0], command, os.Environ())
}
