/** Words that need no quotes. On Windows a backslash separates directories; elsewhere it escapes the next character. */
const PLAIN = { posix: /^[\w@%+=:,./-]+$/, windows: /^[\w@%+=:,./\\-]+$/ };

/** cmd supports only double quotes. Inside double quotes, PowerShell reads `""` as one quote. */
const quote = (text: string, isWindows: boolean): string =>
  isWindows ? `"${text.replaceAll('"', '""')}"` : `'${text.replaceAll("'", `'\\''`)}'`;

/** A command line that can be pasted into a shell: POSIX, or PowerShell and cmd on Windows. */
export function shellQuote(words: readonly string[], platform: NodeJS.Platform): string {
  const isWindows = platform === 'win32';
  const plain = isWindows ? PLAIN.windows : PLAIN.posix;
  return words.map((word) => (plain.test(word) ? word : quote(word, isWindows))).join(' ');
}
