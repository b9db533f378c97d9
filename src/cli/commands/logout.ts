import { openProfileFiles } from '../profiles/files.ts';
import { chooseProfile } from '../profiles/resolve.ts';
import type { Command } from '../program/command.ts';

export const logout: Command<object> = {
  name: 'logout',
  summary: 'remove the API key from a profile',
  examples: ['pets logout', 'pets logout --profile staging'],
  async run(_options, context) {
    const { console, globals, env } = context;
    const files = openProfileFiles(context);
    const profile = chooseProfile({
      flags: globals,
      env,
      defaultProfile: files.readSettings().defaultProfile,
    });
    const stored = files.read(profile);
    if (stored?.key === undefined) {
      console.notice(`profile ${profile} has no key`);
      return;
    }
    const { key: _, ...rest } = stored;
    await files.write(profile, rest);
    console.notice(`removed the key from profile ${profile}`);
  },
};
