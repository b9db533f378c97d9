import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from './documents.ts';

const DIRECTORY = '.github/workflows';

/** The workflows of GitHub Actions. `name` is the path from the root of the repository. */
export const workflows = readdirSync(join(repository, DIRECTORY)).map((file) => {
  const name = `${DIRECTORY}/${file}`;
  return { name, text: readFileSync(join(repository, name), 'utf8') };
});

/** A step with a shell script. `at` is the location of the script, such as `.github/workflows/ci.yml:12`. */
export type ShellStep = { at: string; name: string; script: string };

/** Finds the steps that have a name and a script, which is one line or a block. */
export function shellSteps({ name: file, text }: { name: string; text: string }): ShellStep[] {
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
