import type { Command } from '../command.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { openProfileFiles } from '../profiles/files.ts';
import { chooseProfile } from '../profiles/resolve.ts';

export const logout: Command<object> = {
  name: 'logout',
  summary: "forget a profile's key",
  examples: ['pets logout', 'pets logout --profile staging'],
  async run(_options, { context, globals, console }) {
    const files = openProfileFiles(context);
    const profile = chooseProfile({
      flags: globals,
      env: context.env,
      defaultProfile: files.readSettings().defaultProfile,
    });
    const stored = files.read(profile);
    if (stored?.key === undefined) {
      console.notice(`profile ${profile} has no key`);
      return exitCodes.ok;
    }
    const { key: _, ...rest } = stored;
    await files.write(profile, rest);
    console.notice(`the key of profile ${profile} is forgotten`);
    return exitCodes.ok;
  },
};
