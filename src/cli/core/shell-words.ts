/** Words that need no quotes. On Windows a backslash separates directories; elsewhere it escapes the next character. */
const PLAIN = { posix: /^[\w@%+=:,./-]+$/, windows: /^[\w@%+=:,./\\-]+$/ };

/** A command line that can be pasted into a shell: POSIX, or PowerShell and cmd on Windows. */
export function shellQuote(words: readonly string[], platform: NodeJS.Platform): string {
  const isWindows = platform === 'win32';
  const plain = isWindows ? PLAIN.windows : PLAIN.posix;
  // cmd supports only double quotes. Inside double quotes, PowerShell reads `""` as one quote.
  const quote = (word: string) =>
    isWindows ? `"${word.replaceAll('"', '""')}"` : `'${word.replaceAll("'", `'\\''`)}'`;
  return words.map((word) => (plain.test(word) ? word : quote(word))).join(' ');
}

/** A command line that sets environment variables, for a POSIX shell or PowerShell. */
export function withEnvironment(
  variables: Record<string, string>,
  command: string,
  platform: NodeJS.Platform,
): string {
  const entries = Object.entries(variables);
  return platform === 'win32'
    ? `${entries.map(([name, value]) => `$env:${name}='${value}'; `).join('')}${command}`
    : `${entries.map(([name, value]) => `${name}=${value} `).join('')}${command}`;
}
