import { expect, test } from 'vitest';
import { runInTerminal } from '../helpers/context.ts';

test.each(['bash', 'zsh', 'fish', 'powershell'])(
  '%s prints a script that says first how to install it',
  async (shell) => {
    const { code, stdout, stderr } = await runInTerminal(['completion', shell]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const head = stdout.slice(0, stdout.indexOf('\n\n'));
    expect(head).toMatch(
      /^(#compdef pets\n)?# Tab completion of pets for \w+\. To enable it in every new shell/,
    );
    expect(head).toContain(`pets completion ${shell}`);
  },
);

test('after -- it prints the candidates with descriptions, and what the shell should complete itself', async () => {
  const candidates = async (...words: string[]) =>
    (await runInTerminal(['completion', 'zsh', '--', ...words])).stdout;
  expect(await candidates('logo')).toBe('logout\tremove the API key from a profile\n:nothing\n');
  expect(await candidates('list', '--status', 'so')).toBe('sold\n:nothing\n');
  expect(await candidates('import', '')).toBe(':files\n');
  expect(await candidates('serve', '--faults', '')).toBe(':files\n');
});

test('the script for PowerShell calls pets, and its brackets and quotes are balanced', async () => {
  const { stdout } = await runInTerminal(['completion', 'powershell']);
  expect(stdout).toContain('Register-ArgumentCompleter -Native -CommandName pets -ScriptBlock {');
  expect(stdout).toContain("pets completion powershell '--' @words");
  const code = stdout.replace(/^\s*#.*$/gm, '').replace(/'[^'\n]*'|"[^"\n]*"/g, '');
  expect(code).not.toMatch(/['"]/);
  for (const pair of ['{}', '()', '[]']) {
    expect(code.split(pair[0] ?? '')).toHaveLength(code.split(pair[1] ?? '').length);
  }
});
