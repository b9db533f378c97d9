// Preloaded with `node -r`. When the process ends, writes its peak memory in KiB to file descriptor 3.
const { readFileSync, writeSync } = require('node:fs');

process.on('exit', () => writeSync(3, String(peak())));

function peak() {
  try {
    // Prefer /proc, because `maxRSS` includes the memory of the parent process at the time of the fork.
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]);
  } catch {
    return process.resourceUsage().maxRSS;
  }
}
