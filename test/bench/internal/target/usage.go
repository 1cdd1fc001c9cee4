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

// Usage is what a process has used so far.
type Usage struct {
	CPU time.Duration // user and system
	RSS int64         // resident memory, in bytes
}

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ, which is 100
// on every architecture that Go runs on.
const clockTick = time.Second / 100

// processUsage reads /proc.
func processUsage(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	return parseStat(string(stat), int64(os.Getpagesize()))
}

// parseStat reads a line of proc(5): the fields after the command's name, which
// stands in parentheses and may have any characters, are the 3rd and on. utime
// and stime are the 14th and 15th, rss, in pages, the 24th.
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

// parseMetrics reads what the Prometheus client library tells of its process.
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

// OwnCPU is what this program has used: where it is as much as the cell's, the
// machine was busy with making the load.
func OwnCPU() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
