// Importing `undici` loads the whole library, which slows down every command. Its single files have no declared types.
declare module 'undici/lib/dispatcher/agent.js' {
  import { Agent } from 'undici';
  export default Agent;
}
