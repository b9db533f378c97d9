import type { Command } from '../command.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { openProfileFiles } from '../profiles/files.ts';
import { type ProfileName, profileNames } from '../profiles/profile.ts';

export const use: Command<{ profile: ProfileName }> = {
  name: 'use',
  summary: 'set the default profile',
  examples: ['pets use staging'],
  arguments: [{ name: '<profile>', description: 'the profile', choices: profileNames }],
  async run({ profile }, { context, console }) {
    const files = openProfileFiles(context);
    await files.writeSettings({ ...files.readSettings(), defaultProfile: profile });
    console.notice(`the default profile is ${profile}`);
    const stronger = context.env['PETS_PROFILE'];
    if (stronger && stronger !== profile)
      console.notice(`PETS_PROFILE is stronger than it, and says ${stronger}`);
    if (files.read(profile)?.key === undefined) {
      console.notice(`it has no key yet: ${profile === 'local' ? 'pets serve --seed' : 'pets login'}`);
    }
    return exitCodes.ok;
  },
};
