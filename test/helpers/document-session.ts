import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type Block, type ConsoleStep, locationOf, readConsole, type Session } from './document-blocks.ts';
import { type ReaderMachine, readerMachine } from './document-machine.ts';
import { hasTerminal, recordTerminal, screenLines } from './pseudo-terminal.ts';

/** The width of the terminal. It is large, so that line breaks do not depend on the length of a URL. */
const COLUMNS = 120;
const TIMEOUT = 60_000;

/** The program that runs the blocks of each language. `console` blocks run in a pseudo-terminal instead. */
const interpreters: Record<string, readonly string[]> = {
  sh: ['sh', '-euv'],
  bash: ['bash', '-eu'],
  zsh: ['zsh', '-eu'],
  fish: ['fish'],
  powershell: ['pwsh', '-NoProfile', '-File'],
  js: [process.execPath],
  python: ['python3'],
  yaml: ['sh', '-eu'],
  crontab: ['sh', '-eu'],
  sql: ['psql', '--no-psqlrc', '--set=ON_ERROR_STOP=1', '--quiet', '--file'],
};

export const runnableLanguages = ['console', ...Object.keys(interpreters)];

/** The programs that a session needs and this machine does not have. */
export function missingPrograms({ blocks }: Session): string[] {
  const needed = new Set<string>();
  for (const { language, text } of blocks) {
    const [program] = interpreters[language] ?? [];
    if (program) needed.add(program);
    for (const word of ['jq', 'curl', 'npm']) if (new RegExp(`\\b${word}\\b`).test(text)) needed.add(word);
  }
  const isInstalled = (name: string) => spawnSync('sh', ['-c', `command -v '${name}'`]).status === 0;
  const hasConsole = blocks.some(({ language }) => language === 'console');
  const terminal = hasConsole && !hasTerminal() ? ['script (util-linux)'] : [];
  return [...[...needed].filter((name) => !isInstalled(name)), ...terminal];
}

/** Runs the blocks of a session. Returns each failed script and each difference from the document, with file and line. */
export async function runSession({ blocks, directives }: Session): Promise<string[]> {
  const machine = await readerMachine(directives, blocks.map(({ text }) => text).join('\n'));
  const problems: string[] = [];
  for (const block of blocks) {
    problems.push(...(await (block.language === 'console' ? runConsole : runScript)(block, machine)));
  }
  return problems;
}

async function runScript(block: Block, machine: ReaderMachine): Promise<string[]> {
  const { language, text } = block;
  const extension = { js: 'mjs', powershell: 'ps1' }[language] ?? language;
  const script = join(machine.directory, `.block.${extension}`);
  const commands = machine.localize(withServers(extractCommands(language, text)));
  await writeFile(script, commands);
  const { end, output } = await runProgram([...(interpreters[language] ?? []), script], machine);
  if (end === 0) return [];
  const line = linesRead(commands, output);
  return [`${locationOf(block, line)}: the ${language} block ended with ${end}\n${output}`];
}

/** How many lines of a script `sh -v` had read when it stopped. With `-v`, sh prints each line before running the line. */
function linesRead(script: string, output: string): number {
  const lines = script.split('\n');
  let count = 0;
  for (const line of output.split('\n')) if (line === lines[count]) count++;
  return count;
}

export type LineResult = { code: number; output: string };

/** Runs lines of sh in order on the same machine. Continues after a line that fails. */
export async function runLines(lines: readonly string[]): Promise<LineResult[]> {
  const machine = await readerMachine([], lines.join('\n'));
  const script = lines.map((line) => `(\n${withServers(line)}\n) 2>&1; echo "@@$?"\n`).join('');
  const { output } = await runProgram(['sh', '-c', machine.localize(script)], machine);
  const parts = output.split(/@@(\d+)\n/);
  return lines.map((_, i) => ({ output: parts[2 * i] ?? '', code: Number(parts[2 * i + 1]) }));
}

async function runProgram([program = '', ...args]: readonly string[], { directory, env }: ReaderMachine) {
  const child = spawn(program, args, {
    cwd: directory,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: TIMEOUT,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => {
      output += chunk;
    });
  }
  const closed = once(child, 'close');
  const [code, signal] = await once(child, 'exit');
  // A server in the background may keep the streams open, so do not wait for `close` for long.
  await Promise.race([closed, setTimeout(200)]);
  return { end: code ?? signal, output };
}

/** Extracts the shell commands of a workflow or a crontab. Returns text in other languages unchanged. */
function extractCommands(language: string, text: string): string {
  if (language === 'yaml') return workflowSteps(text.split('\n'));
  if (language !== 'crontab') return text;
  const time = /^(@\w+|(\S+\s+){4}\S+)\s+(?=\S)/gm;
  return text.replace(/^#.*$/gm, '').replace(time, '').replaceAll('\\%', '%');
}

/** The commands of all `run:` steps of a workflow. They are on the line of `run:`, or indented below it. */
function workflowSteps(lines: readonly string[]): string {
  const indentOf = (line: string) => (line.trim() === '' ? Number.POSITIVE_INFINITY : line.search(/[^ -]/));
  const steps = lines.flatMap((line, i) => {
    const [, command] = /^[ -]*run: (.*)$/.exec(line) ?? [];
    if (command !== '|') return command === undefined ? [] : [command];
    const end = lines.findIndex((each, j) => j > i && indentOf(each) <= indentOf(line));
    return lines.slice(i + 1, end === -1 ? undefined : end).map((each) => each.trimStart());
  });
  if (steps.length === 0) throw new Error('the workflow has no step that runs a command');
  return steps.join('\n');
}

/** Replaces `pets serve` with `pets-serve`, which runs in the background, so that later commands can use the service. */
const withServers = (script: string): string =>
  script.replace(/^(\s*)pets serve\b(.*)$/gm, (line, indent, rest) => {
    const args = rest.replace(/\s+#.*$/, '');
    // Keep a script that reads $!, the id of its last background process, because such a script stops the server.
    if (/ -- |--help|\\$/.test(args) || script.includes('$!')) return line;
    return `${indent}pets-serve${args.replace(/\s*&$/, '')}`;
  });

async function runConsole(block: Block, machine: ReaderMachine): Promise<string[]> {
  const steps = readConsole(block.text);
  const lines = steps.map(
    ({ command }) => `${machine.localize(withServers(command))}\ncode=$?; echo "@@$code"; (exit $code)\n`,
  );
  const script = join(machine.directory, '.session');
  await writeFile(script, lines.join(''));
  const terminal = await recordTerminal('exec sh .session', {
    cwd: machine.directory,
    env: machine.env,
    columns: COLUMNS,
    rows: 50,
    typed: [{ after: /API key for/, text: `${machine.key}\r` }],
    timeoutMilliseconds: TIMEOUT,
  });
  const parts = screenLines(terminal)
    .join('\n')
    .split(/@@(\d+)(?:\n|$)/);
  return steps.flatMap((step, i) => {
    const [shown = '', code = 'no exit code'] = parts.slice(2 * i, 2 * i + 2);
    const problem = compare(step, { shown, code }, machine);
    return problem === undefined ? [] : [`${locationOf(block, step.line)}: $ ${step.command}\n${problem}`];
  });
}

/**
 * Compares a command's output with the document, and returns the difference. In the document, `…` stands for any text
 * within a line. A line that is only `…` stands for any number of lines. Column widths are ignored, because they depend
 * on the length of the URL. If the document shows no output, the command only has to succeed.
 */
function compare(
  { output }: ConsoleStep,
  { shown, code }: { shown: string; code: string },
  { normalize }: ReaderMachine,
): string | undefined {
  if (output.length === 0) return code === '0' ? undefined : `ended with ${code}\n${shown}`;
  const expected = collapseColumns(normalize(output.join('\n')));
  const pattern = expected
    .split('\n')
    .map((line) =>
      line === '…' ? '(?:.*\\n)*?' : `${line.trimEnd().split('…').map(escapeRegExp).join('.*')} *\\n`,
    );
  const actual = collapseColumns(normalize(shown)).replace(/\n*$/, '\n');
  return new RegExp(`^${pattern.join('')}$`).test(actual)
    ? undefined
    : `printed\n${actual}but the document shows\n${expected}`;
}

const collapseColumns = (text: string): string => text.replace(/(\S) {2,}/g, '$1  ');

const escapeRegExp = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
