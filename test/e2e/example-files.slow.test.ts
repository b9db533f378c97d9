import { execFile, spawnSync } from 'node:child_process';
import { copyFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { serve } from '../../src/cli/commands/serve.ts';
import { repository } from '../helpers/documents.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// These tests check the files in docs/examples/. test/e2e/postgres/three-servers.postgres.test.ts runs the load balancers.

const EXAMPLES = join(repository, 'docs', 'examples');
const hasSystemd = spawnSync('systemd-analyze', ['--version']).error === undefined;
const run = promisify(execFile);

test.skipIf(!hasSystemd)('systemd accepts the unit, and grants it little', async () => {
  const unit = join(await temporaryDirectory(), 'pets@7387.service');
  await copyFile(join(EXAMPLES, 'pets@.service'), unit);
  // Unknown settings are reported, but the exit code stays 0.
  // The other units of this machine are read too, and can have problems of their own.
  const { stdout, stderr } = await run('systemd-analyze', ['verify', unit]);
  const problems = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('pets@'));
  expect(problems).toEqual([]);
  await run('systemd-analyze', ['security', '--offline=true', '--threshold=15', unit]);
});

test.each(['pets@.service', 'compose.yaml'])('pets serve has the options in %s', async (name) => {
  const lines = (await readFile(join(EXAMPLES, name), 'utf8')).split('\n');
  const options = lines
    .filter((line) => /pets serve|PETS_OPTIONS=/.test(line))
    .flatMap((line) => line.match(/--[a-z-]+/g) ?? []);
  const known = serve.options?.map(({ flags }) => flags.split(' ')[0]);
  expect(options.length).toBeGreaterThan(3);
  expect(known).toEqual(expect.arrayContaining(options));
});
