/** What needs no quotes. A path of Windows is one word there; elsewhere a backslash takes the next letter's meaning. */
const PLAIN = { posix: /^[\w@%+=:,./-]+$/, windows: /^[\w@%+=:,./\\-]+$/ };

/** Words as they are typed into this system's shells, so that a command that we show can be copied. */
export function shellWords(words: readonly string[], platform: NodeJS.Platform): string {
  const isWindows = platform === 'win32';
  const plain = isWindows ? PLAIN.windows : PLAIN.posix;
  // PowerShell doubles a quote inside quotes; cmd knows no other quotes than these.
  const quote = (word: string) =>
    isWindows ? `"${word.replaceAll('"', '""')}"` : `'${word.replaceAll("'", `'\\''`)}'`;
  return words.map((word) => (plain.test(word) ? word : quote(word))).join(' ');
}

/** How a command is run with variables set, for this system's shells: those of POSIX, or PowerShell. */
export function withVariables(
  variables: Record<string, string>,
  command: string,
  platform: NodeJS.Platform,
): string {
  const entries = Object.entries(variables);
  return platform === 'win32'
    ? `${entries.map(([name, value]) => `$env:${name}='${value}'; `).join('')}${command}`
    : `${entries.map(([name, value]) => `${name}=${value} `).join('')}${command}`;
}
