package target

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is the resource use of a process so far.
type Usage struct {
	CPU time.Duration // user and system
	RSS int64         // resident memory, in bytes
}

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ, which is 100
// on every architecture that Go runs on.
const clockTick = time.Second / 100

// ProcessUsage returns the resource use of a process, from /proc.
func ProcessUsage(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	return parseStat(string(stat), int64(os.Getpagesize()))
}

// parseStat parses a line of proc(5). The command's name is in parentheses and
// may contain any characters; the fields after it start with the 3rd. utime and
// stime are the 14th and 15th; rss, in pages, is the 24th.
func parseStat(line string, page int64) (Usage, error) {
	end := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[end+1:])
	const first, utime, stime, rss = 3, 14, 15, 24
	if end < 0 || len(fields) <= rss-first {
		return Usage{}, fmt.Errorf("%q is not a line of /proc/PID/stat", line)
	}
	var numbers [3]int64
	for i, field := range []int{utime, stime, rss} {
		n, err := strconv.ParseInt(fields[field-first], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("field %d of /proc/PID/stat: %w", field, err)
		}
		numbers[i] = n
	}
	return Usage{CPU: time.Duration(numbers[0]+numbers[1]) * clockTick, RSS: numbers[2] * page}, nil
}

// parseMetrics reads the process metrics of the Prometheus client library.
func parseMetrics(page io.Reader) (u Usage, err error) {
	var cpu, rss bool
	for lines := bufio.NewScanner(page); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if name != "process_cpu_seconds_total" && name != "process_resident_memory_bytes" {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return Usage{}, fmt.Errorf("metric %s: %w", name, err)
		}
		if name == "process_cpu_seconds_total" {
			u.CPU, cpu = time.Duration(value*float64(time.Second)), true
		} else {
			u.RSS, rss = int64(value), true
		}
	}
	if !cpu || !rss {
		return Usage{}, fmt.Errorf("the metrics page has no process_cpu_seconds_total and process_resident_memory_bytes")
	}
	return u, nil
}

// OwnCPU returns the CPU time of this program. If it is as much as the cell's,
// the machine was busy making the load.
func OwnCPU() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
