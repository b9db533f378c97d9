// Plants the defects of mutants.json one at a time in a copy of the working tree, and reports which of them the tests
// find. mutants-found.json is the record of earlier runs. The run fails if a defect is not found that was found before,
// if the code of a defect has changed, so that the defect must be adapted, or if a test also fails without the defect.
//
//   npm run mutants                        every defect, with the tests of npm test; takes about an hour on two cores
//   npm run mutants -- --all               also with the slow tests and those of PostgreSQL
//   npm run mutants -- --quick             only with the tests that import the file, and those in its folder of test/
//   npm run mutants -- --only <id> <id>    only these defects
//   npm run mutants -- --all --tests <part of a path>    with --all: only these test files; may be repeated
//   npm run mutants -- --list              the defects, and whether they were found before
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import defects from './mutants.json' with { type: 'json' };

/** A defect: `replace` replaces `find`, which occurs once in `file`. `breaks` is the promise that the defect breaks. */
type Defect = (typeof defects)[number];
/** Tests to run: a configuration of vitest, and arguments that select test files. Most test files need no build. */
type Stage = { config: 'vitest' | 'all'; select: readonly string[]; needsBuild?: boolean };
/** `unclear` is a failed test that also fails without the defect. */
type Result = { found?: string; by?: Stage['config']; unclear?: string };
type Outcome = 'npm test' | 'npm run test:all' | 'not found';

const RECORD = join(import.meta.dirname, 'mutants-found.json');
const NOT_COPIED = ['node_modules', 'dist', 'dist-package', 'coverage', join('bench', 'results')];
/** A defect can cause an endless loop, which no timeout of vitest ends. */
const STAGE_TIMEOUT_MS = 30 * 60_000;

const { values: options, positionals } = parseArgs({
  options: {
    all: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    only: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    tests: { type: 'string', multiple: true, default: [] },
  },
  allowPositionals: true,
});
const unknown = positionals.filter((word) => !defects.some(({ id }) => id === word));
if (unknown.length > 0) throw new Error(`no defect is named ${unknown.join(', ')}; see --list`);
const chosen = options.only ? defects.filter(({ id }) => positionals.includes(id)) : defects;

if (options.list) {
  const record = readRecord();
  for (const { id, file, breaks } of chosen) print(id, file, breaks, record[id] ?? 'never run');
} else await runAll();

async function runAll(): Promise<void> {
  const root = join(import.meta.dirname, '..');
  const copy = mkdtempSync(join(tmpdir(), 'pets-mutants-'));
  const counts = { found: 0, 'not found': 0, skipped: 0, 'to be adapted': 0, unclear: 0 };
  const lost: string[] = [];
  const removeCopy = () => rmSync(copy, { recursive: true, force: true });
  const stop = () => process.exit(130);
  process.once('exit', removeCopy).once('SIGINT', stop).once('SIGTERM', stop);
  cpSync(root, copy, {
    recursive: true,
    verbatimSymlinks: true,
    filter: (path) => !NOT_COPIED.includes(relative(root, path)),
  });
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  await build(copy);
  for (const defect of chosen) {
    const { id, file, breaks, find } = defect;
    const before = readRecord()[id];
    const occurrences = readSource(join(copy, file)).split(find).length - 1;
    if (occurrences !== 1) {
      counts['to be adapted']++;
      print(id, file, breaks, `TO BE ADAPTED: \`find\` occurs ${occurrences} times`);
      continue;
    }
    if (before === 'npm run test:all' && !options.all) {
      counts.skipped++;
      print(id, file, breaks, 'SKIPPED: only the tests of --all find it');
      continue;
    }
    const { found, by, unclear } = await runOne(copy, defect);
    if (unclear !== undefined) {
      counts.unclear++;
      print(id, file, breaks, `UNCLEAR: also fails without the defect: ${unclear}`);
      continue;
    }
    counts[found === undefined ? 'not found' : 'found']++;
    const byAll = before === 'npm test' ? before : 'npm run test:all';
    const outcome: Outcome = by === undefined ? 'not found' : by === 'all' ? byAll : 'npm test';
    // If only some tests ran, the other tests might still find the defect.
    const isWeaker = by === undefined && (options.quick || options.tests.length > 0);
    if (!isWeaker) writeRecord(id, outcome);
    if (by === undefined && !isWeaker && before !== undefined && before !== 'not found') lost.push(id);
    print(id, file, breaks, found ?? `NOT FOUND${isWeaker ? ' by these tests' : ''}`);
  }
  if (lost.length > 0) console.log(`found before, but not now: ${lost.join(', ')}`);
  const totals = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  console.log(`${chosen.length} defects: ${totals.join(', ')}`);
  if (lost.length + counts['to be adapted'] + counts.unclear > 0) process.exitCode = 1;
}

/** Runs the tests with one defect, until a test fails. That test must pass without the defect. */
async function runOne(copy: string, { file, find, replace }: Defect): Promise<Result> {
  const path = join(copy, file);
  const source = readSource(path);
  // A function, because `$&` has a meaning in a string.
  writeFileSync(
    path,
    source.replace(find, () => replace),
  );
  let isBuilt = false;
  const restore = async () => {
    writeFileSync(path, source);
    if (isBuilt) await build(copy);
    isBuilt = false;
  };
  try {
    for (const { config, select, needsBuild = true } of stagesOf(copy, file)) {
      if (needsBuild && !isBuilt) await build(copy);
      isBuilt ||= needsBuild;
      const failed = await firstFailure(copy, config, select);
      if (failed === undefined) continue;
      await restore();
      const again = await firstFailure(copy, config, [failed.file]);
      if (again !== undefined) return { unclear: `${again.file}: ${again.test}` };
      return { found: `${failed.file}: ${failed.test}`, by: config };
    }
    return {};
  } finally {
    await restore();
  }
}

function build(copy: string) {
  return run(copy, 'npm', ['run', 'build']);
}

/**
 * The tests in the order in which they probably find a defect of this file: first those that import the file, or have
 * its name or the name of its folder, then all of test/cli/ for src/cli/, then all others. Options can change this.
 */
function stagesOf(copy: string, file: string): Stage[] {
  const { tests, all, quick } = options;
  if (tests.length > 0) return [{ config: all ? 'all' : 'vitest', select: tests }];
  const [area = '', ...names] = file.replace(/\.ts$/, '').split('/').slice(1);
  const folder = `test/${area}/`;
  const isNear = (path: string) =>
    readSource(join(copy, path)).includes(`/${file}'`) ||
    (path.startsWith(folder) && names.some((name) => path.includes(name, folder.length)));
  const near = readdirSync(join(copy, 'test'), { recursive: true, encoding: 'utf8' })
    .map((path) => `test/${path}`)
    .filter((path) => path.endsWith('.test.ts') && !/\.(slow|postgres)\./.test(path) && isNear(path));
  const stages: Stage[] = [
    ...(near.length > 0 ? [{ config: 'vitest' as const, select: near, needsBuild: false }] : []),
    { config: 'vitest', select: [folder] },
  ];
  if (quick) return stages;
  const others: Stage = { config: 'vitest', select: ['--exclude', `${folder}**`] };
  if (!all) return [...stages, others];
  const postgres: Stage = { config: 'all', select: ['.postgres.test.ts'] };
  // This stage includes the tests of `others`, with all random cases.
  const everything: Stage = { config: 'all', select: [] };
  return [...stages, file.startsWith('src/store/postgres/') ? postgres : others, everything];
}

/** The first test that fails; undefined if all pass. */
async function firstFailure(
  copy: string,
  config: Stage['config'],
  select: readonly string[],
): Promise<{ file: string; test: string } | undefined> {
  const output = join(copy, 'mutants-results.json');
  rmSync(output, { force: true });
  const args = ['run', '--config', `.config/${config}.config.ts`, '--bail', '1', '--reporter', 'json'];
  const end = await run(copy, 'npx', ['vitest', ...args, '--outputFile', output, ...select]);
  if (end === 'timeout') return { file: select.at(-1) ?? '', test: 'the tests do not end' };
  const { testResults } = JSON.parse(readFileSync(output, 'utf8')) as {
    testResults: { name: string; status: string; assertionResults: { status: string; fullName: string }[] }[];
  };
  for (const { name, assertionResults } of testResults) {
    const failed = assertionResults.find(({ status }) => status === 'failed');
    if (failed) return { file: relative(copy, name), test: failed.fullName };
  }
  // A hook can fail too. A file that could not be loaded has no tests, and does not count as a failed test.
  const hook = testResults.find((each) => each.status === 'failed' && each.assertionResults.length > 0);
  return hook && { file: relative(copy, hook.name), test: 'a hook fails' };
}

/** Runs a command in a process group of its own, so that a timeout ends the processes of the tests too. */
function run(
  directory: string,
  command: string,
  args: readonly string[],
): Promise<number | null | 'timeout'> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: directory, stdio: 'ignore', detached: true });
    const kill = () => void (child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'));
    const timer = setTimeout(() => {
      kill();
      resolve('timeout');
    }, STAGE_TIMEOUT_MS);
    process.once('exit', kill);
    child.once('error', reject).once('exit', (code) => {
      clearTimeout(timer);
      process.off('exit', kill);
      resolve(code);
    });
  });
}

/** The text of a file; empty if the file was moved or removed. */
function readSource(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function readRecord(): Record<string, Outcome> {
  return JSON.parse(readSource(RECORD) || '{}');
}

function writeRecord(id: string, outcome: Outcome): void {
  const record = { ...readRecord(), [id]: outcome };
  const inOrder = Object.fromEntries(defects.flatMap(({ id }) => (record[id] ? [[id, record[id]]] : [])));
  writeFileSync(RECORD, `${JSON.stringify(inOrder, null, 2)}\n`);
}

function print(...[id, file, breaks, result]: string[]): void {
  console.log(`${id?.padEnd(30)} ${file}\n  ${breaks}\n  ${result}`);
}
