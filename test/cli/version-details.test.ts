import { expect, test } from 'vitest';
import { findInstallation, type Installation } from '../../src/cli/core/version-details.ts';
import { freshMachine } from '../helpers/pets.ts';

const DETAILS = { version: '1.2.3', commit: null, node: '26.1.0', installedAs: 'deb' } as const;

test.each<{ directory: string; executable?: string; exists?: string; installation: Installation }>([
  { directory: '/usr/lib/node_modules/pets-cli/dist', installation: 'npm-global' },
  { directory: '/home/ada/.nvm/v26/lib/node_modules/pets-cli/dist/chunks', installation: 'npm-global' },
  { directory: 'C:\\Users\\ada\\npm\\node_modules\\pets-cli\\dist', installation: 'npm-global' },
  {
    directory: '/shop/node_modules/pets-cli/dist',
    exists: '/shop/package.json',
    installation: 'npm-local',
  },
  {
    directory: '/shop/node_modules/.pnpm/pets-cli@1.2.3/node_modules/pets-cli/dist',
    exists: '/shop/package.json',
    installation: 'npm-local',
  },
  {
    directory: 'C:\\shop\\node_modules\\pets-cli\\dist',
    exists: 'C:\\shop/package.json',
    installation: 'npm-local',
  },
  { directory: '/home/ada/pets/dist', exists: '/home/ada/pets/package.json', installation: 'source' },
  { directory: '/home/ada/pets/src/cli', installation: 'source' },
  { directory: '.', executable: '/home/ada/bin/pets', installation: 'executable' },
  { directory: '.', executable: 'C:\\pets\\pets.exe', installation: 'executable' },
  {
    directory: 'chunks',
    executable: '/usr/bin/pets',
    exists: '/usr/bin/../lib/pets/installed-as-deb',
    installation: 'deb',
  },
  {
    directory: '.',
    executable: '/home/ada/node_modules/pets',
    exists: '/usr/bin/../lib/pets/installed-as-deb',
    installation: 'executable',
  },
])(
  'a package in $directory, with the executable $executable, is installed as $installation',
  ({ directory, executable, exists, installation }) => {
    expect(findInstallation(directory, executable, (path) => path === exists)).toBe(installation);
  },
);

const context = { versionDetails: () => DETAILS };

test.each(['--version --json', '--json -V', 'list --json --version'])(
  'pets %s prints all details of the version as JSON',
  async (line) => {
    expect(await (await freshMachine()).pets(line.split(' '), context)).toEqual({
      code: 0,
      stdout: `${JSON.stringify(DETAILS)}\n`,
      stderr: '',
    });
  },
);

test('on a terminal, the details are indented', async () => {
  const { stdout } = await (await freshMachine()).pets(['--version', '--json'], { ...context, columns: 80 });
  expect(stdout).toBe(`${JSON.stringify(DETAILS, null, 2)}\n`);
});

test('without --json, only the version is printed', async () => {
  expect(await (await freshMachine()).pets(['--version'], context)).toMatchObject({ stdout: '1.2.3\n' });
});
