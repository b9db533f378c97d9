import { expect, test } from 'vitest';
import { wrapText } from '../../src/cli/output/width.ts';

test.each([
  ['one two three', 9, 2, 'one two\n  three'],
  ['note: nothing here is longer than the line', 80, 2, 'note: nothing here is longer than the line'],
  // A command stays on one line with its options and their values.
  ['to see more: pets list --status sold --all', 30, 2, 'to see more:\n  pets list --status sold --all'],
  [
    'put quotes around it: pets add "Lady Bella" --category 1',
    40,
    4,
    'put quotes around it:\n    pets add "Lady Bella" --category 1',
  ],
  ['add it: pets add <name> --category <id>', 24, 2, 'add it:\n  pets add <name> --category <id>'],
  ['for example: pets add Rex --category 3', 37, 4, 'for example:\n    pets add Rex --category 3'],
  ['no keys: pets keys add <name> --plan <plan>', 40, 2, 'no keys:\n  pets keys add <name> --plan <plan>'],
  ['log in: pets login; or try it here', 24, 2, 'log in: pets login; or\n  try it here'],
  // A longer command is left to the terminal to wrap, so that users can copy the whole command.
  [
    'see: pets login --base-url https://api.example.com/v1',
    30,
    2,
    'see:\n  pets login --base-url https://api.example.com/v1',
  ],
  ['see https://api.example.com/v1/a/long/path', 20, 2, 'see\n  https://api.example.com/v1/a/long/path'],
  ['first\nsecond line', 8, 2, 'first\nsecond\n  line'],
  ['猫 猫 猫 猫', 6, 0, '猫 猫\n猫 猫'],
])('%j on %i columns, indented by %i', (text, columns, indent, expected) => {
  expect(wrapText(text, columns, indent)).toBe(expected);
});
