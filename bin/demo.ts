// Runs typical commands against the service in PETS_BASE_URL with the key in PETS_API_KEY. `npm run demo` starts a
// service with sample animals and sets both variables:
//   pets serve --ephemeral --seed -- tsx bin/demo.ts
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const pets = join(import.meta.dirname, '..', 'dist', 'pets.js');

const session = [
  ['list', '--all'],
  ['list', '--status', 'available', '--limit', '5'],
  ['add', 'Rex the Second', '--category', '1', '--status', 'pending'],
  ['get', '67'],
  ['orders'],
];

for (const args of session) {
  console.log(`\n$ pets ${args.map(quote).join(' ')}`);
  const { status } = spawnSync(process.execPath, [pets, ...args], { stdio: 'inherit' });
  if (status !== 0) {
    process.exitCode = status ?? 1;
    break;
  }
}

function quote(argument: string): string {
  return argument.includes(' ') ? `'${argument}'` : argument;
}
