import { expect, test } from 'vitest';
import { type InstallationKind, installationKind } from '../../src/cli/core/version-details.ts';
import { freshMachine } from '../helpers/pets.ts';

const DETAILS = { version: '1.2.3', commit: null, node: '26.1.0', installedAs: 'deb' } as const;

const MARKER = '/usr/bin/../lib/pets/installed-as-deb';

test.each<[InstallationKind, directory: string, exists?: string | undefined, executable?: string]>([
  ['npm-global', '/usr/lib/node_modules/pets-cli/dist'],
  ['npm-global', 'C:\\Users\\ada\\npm\\node_modules\\pets-cli\\dist'],
  ['npm-local', '/shop/node_modules/pets-cli/dist', '/shop/package.json'],
  ['npm-local', '/shop/node_modules/.pnpm/pets-cli@1/node_modules/pets-cli/dist', '/shop/package.json'],
  ['source', '/home/ada/pets/dist', '/home/ada/pets/package.json'],
  ['executable', '.', undefined, '/home/ada/bin/pets'],
  ['deb', 'chunks', MARKER, '/usr/bin/pets'],
  ['executable', '.', MARKER, '/home/ada/node_modules/pets'],
])('%s: in %s, if %s exists, with the executable %s', (installation, directory, file, executable) => {
  expect(installationKind(directory, executable, (path) => path === file)).toBe(installation);
});

const context = { versionDetails: () => DETAILS };

test.each<[string, number | undefined, stdout: string]>([
  ['--version --json', undefined, `${JSON.stringify(DETAILS)}\n`],
  ['--json -V', undefined, `${JSON.stringify(DETAILS)}\n`],
  ['--version --json', 80, `${JSON.stringify(DETAILS, null, 2)}\n`],
  ['--version', undefined, '1.2.3\n'],
])('pets %s on a terminal of %s columns', async (line, columns, stdout) => {
  const options = columns === undefined ? context : { ...context, columns };
  const ran = await (await freshMachine()).pets(line.split(' '), options);
  expect(ran).toEqual({ code: 0, stdout, stderr: '' });
});
