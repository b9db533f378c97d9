import { bash } from './bash.ts';
import { fish } from './fish.ts';
import { powershell } from './powershell.ts';
import { zsh } from './zsh.ts';

/**
 * A script for each shell, which asks `pets completion <shell> -- <words…>` whenever Tab is pressed. What has been typed
 * is passed on as words and never evaluated: it may hold a redirection or a command.
 */
export const scripts = { bash, zsh, fish, powershell };
