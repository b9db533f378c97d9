// Runs `npm run test:all` in a clean clone for each Node line that the arguments name, or else for each supported one.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

const lines = process.argv.length > 2 ? process.argv.slice(2) : ['20', '22', '24', '26'];
const counts = [];

for (const line of lines) {
  const directory = mkdtempSync(join(tmpdir(), `pets-node-${line}-`));
  try {
    counts.push(`Node ${line}: ${prove(line, directory)}`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
console.log(counts.join('\n'));
if (counts.some((count) => !/ 0 failed$/.test(count))) process.exitCode = 1;

function prove(line: string, directory: string): string {
  const node = execFileSync('npx', ['-y', '-p', `node@${line}`, 'node', '-p', 'process.execPath'], {
    encoding: 'utf8',
  });
  const env = { ...process.env, PATH: `${dirname(node.trim())}${delimiter}${process.env.PATH}` };
  const run = (command: string, args: string[]) =>
    spawnSync(command, args, { cwd: directory, env, stdio: 'inherit' }).status === 0;
  const results = join(directory, 'results.json');
  const isReady =
    run('git', ['clone', '--quiet', process.cwd(), directory]) &&
    run('npm', ['ci', '--ignore-scripts']) &&
    run('npm', ['run', 'build']);
  if (!isReady) return '0 passed, 1 failed';
  run('npm', ['run', 'test:all', '--', '--reporter=default', '--reporter=json', `--outputFile=${results}`]);
  const { numPassedTests, numFailedTests, success } = JSON.parse(readFileSync(results, 'utf8'));
  return `${numPassedTests} passed, ${success ? numFailedTests : Math.max(1, numFailedTests)} failed`;
}
