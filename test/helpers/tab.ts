import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { withDeadline } from './context.ts';
import { type Machine, petsInShell } from './pets.ts';
import { hasTerminal, spawnInTerminal } from './pseudo-terminal.ts';

export const TAB = '\t';
export const LEFT = '\x02';
/** Keys that the start-up files below bind. One inserts all candidates, the other prints the line and clears it. */
const INSERT_ALL = '\x1b*';
const PRINT_LINE = '\x14';

/** Whether a shell is installed, and this machine has pseudo-terminals if the shell needs one. */
export function canTestShell(shell: string): boolean {
  const isInstalled = spawnSync(shell, ['--version'], { stdio: 'ignore' }).status === 0;
  return isInstalled && (shell === 'fish' || hasTerminal());
}

/** The environment of a machine with the built command in its PATH as `pets`. */
export async function environmentWithPets({ home, env }: Machine): Promise<Record<string, string>> {
  const bin = join(home, 'bin');
  await mkdir(bin);
  await writeFile(join(bin, 'pets'), `#!/bin/sh\nexec ${petsInShell} "$@"\n`);
  await chmod(join(bin, 'pets'), 0o755);
  return { ...env, PATH: `${bin}${delimiter}${env['PATH']}`, TERM: 'dumb', LC_ALL: 'C.UTF-8' };
}

/** The start-up files of the shells. A shell that is ready prints \x1e\x1e. PRINT_LINE prints a line between two \x1e. */
const startUp = {
  bash: (lines: string) => `${lines}
bind 'set bell-style none'
report() { printf '\\036%s\\036' "$READLINE_LINE"; READLINE_LINE= READLINE_POINT=0; }
bind -x '"\\C-t": report'
PROMPT_COMMAND="printf '\\036\\036'"`,
  zsh: (lines: string) => `bindkey -e
${lines}
every() { _main_complete; compstate[insert]=all; compstate[list]=; }
zle -C every complete-word every
bindkey '\\e*' every
report() { printf '\\036%s\\036' "$BUFFER"; BUFFER=; }
zle -N report
bindkey '^t' report
zle-line-init() { printf '\\036\\036'; zle -D zle-line-init; }
zle -N zle-line-init`,
};

export type Editor = {
  /** Types keys; returns the resulting command line. Rejects after 60 s with the output of the shell. */
  line(keys: string): Promise<string>;
  /** Everything that the shell has written to the terminal. */
  shown(): string;
};

/** Starts an interactive bash or zsh in a pseudo-terminal; it is killed after the test. */
export async function startEditor(
  shell: keyof typeof startUp,
  machine: Machine,
  lines = `eval "$(pets completion ${shell})"`,
): Promise<Editor> {
  const file = join(machine.home, shell === 'bash' ? 'bashrc' : '.zshrc');
  await writeFile(file, startUp[shell](lines));
  const command = { bash: `bash --noprofile --rcfile ${file} -i`, zsh: 'zsh -d -i' }[shell];
  const child = spawnInTerminal(command, {
    cwd: machine.home,
    env: { ...(await environmentWithPets(machine)), ZDOTDIR: machine.home, HISTFILE: '' },
    columns: 80,
    rows: 24,
  });
  // Killing `script` closes the terminal, which ends the shell.
  onTestFinished(async () => {
    const ended = once(child, 'exit');
    if (child.kill('SIGKILL')) await ended;
  });
  let shown = '';
  const waiting: ((line: string) => void)[] = [];
  const describe = () => `the shell printed no line, but:\n${shown}`;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const count = printedLines(shown).length;
    shown += text;
    for (const line of printedLines(shown).slice(count)) waiting.shift()?.(line);
  });
  const next = () => withDeadline(new Promise<string>((resolve) => waiting.push(resolve)), describe);
  await next();
  return {
    async line(keys) {
      const line = next();
      child.stdin.write(keys + PRINT_LINE);
      return line;
    },
    shown: () => shown,
  };
}

const printedLines = (shown: string): string[] =>
  [...shown.matchAll(/\x1e([^\x1e]*)\x1e/g)].map(([, line]) => line ?? '');

/** Returns a function that completes a typed line in a shell. The candidates are sorted, without quotes and `--name=`. */
export async function completerOf(
  shell: keyof typeof startUp | 'fish',
  machine: Machine,
): Promise<(typed: string) => Promise<string[]>> {
  if (shell === 'fish') {
    const env = await environmentWithPets(machine);
    return async (typed) => {
      const lines = runFish(
        `pets completion fish | source; complete --do-complete ${quoteForFish(typed)}`,
        machine,
        env,
      );
      return normalised(lines.map((line) => line.split('\t')[0] ?? ''));
    };
  }
  const editor = await startEditor(shell, machine);
  return async (typed) => {
    const line = await editor.line(typed + INSERT_ALL);
    if (line === typed) return [];
    return normalised(line.slice(typed.lastIndexOf(' ') + 1).match(/(?:\\.|'[^']*'|[^ ])+/g) ?? []);
  };
}

/** Runs a fish script; returns the lines that it prints. */
export function runFish(script: string, { home }: Machine, env: Record<string, string>): string[] {
  const { stdout } = spawnSync('fish', ['--no-config', '-c', script], { cwd: home, env, encoding: 'utf8' });
  return stdout.split('\n').filter(Boolean);
}

const quoteForFish = (text: string): string => `'${text.replace(/['\\]/g, '\\$&')}'`;

const normalised = (words: readonly string[]): string[] =>
  [
    ...new Set(
      words.map((word) =>
        word
          .replace(/^--\w+=/, '')
          .replace(/\\(.)|['"]/g, '$1')
          .replace(/\/$/, ''),
      ),
    ),
  ].sort();
