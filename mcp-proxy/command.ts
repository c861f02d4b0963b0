import { type Command, InvalidArgumentError, Option } from 'commander';
import { limits } from '../shared/model/limits.ts';
import { isPlainText } from '../shared/model/plain-text.ts';
import { parseWebUrl } from '../shared/wire/api/domain.ts';
import { type Pointer, parsePointer } from './display.ts';
import type { GuardMcpHost, GuardMcpOptions } from './guard-mcp.ts';
import { proxyLimits } from './limits.ts';

const examples = `
An MCP server over HTTP:
  agent-trust guard-mcp --gate gate_… --upstream http://127.0.0.1:3000/mcp
An MCP server that is a program, as a client starts it:
  AGENT_TRUST_PASSPORT_FILE=agent.jwt agent-trust guard-mcp --gate gate_… -- npx -y some-mcp-server

A call of the tool pay needs the permission tools:pay; what else is read or asked needs resources:read,
resources:subscribe, prompts:get, completion:complete, sampling:create or elicitation:create. Over HTTP each request shows its passport in
X-Agent-Passport or Authorization: Passport …; a program has that of --passport-file or AGENT_TRUST_PASSPORT.
`;

/** Adds `agent-trust guard-mcp`: a proxy before an MCP server that decides each call of a tool. */
export function addGuardMcpCommand(program: Command, host: GuardMcpHost): void {
  program
    .command('guard-mcp')
    .description('a proxy before an MCP server: a gate decides what is asked, and changed tools are refused')
    .argument('[command...]', 'after --: the program of the MCP server, with its arguments')
    .requiredOption('--gate <id>', 'gate_…, which decides', gateId)
    .option('--upstream <url>', 'the MCP server, where it speaks Streamable HTTP', httpUrl)
    .option(
      '--upstream-command <command...>',
      'the same as the words after --, where none begins with a dash',
    )
    .option('--host <address>', 'address on which the proxy listens', '127.0.0.1')
    .option('--port <number>', 'its port; 0 takes a free one', portNumber, 8095)
    .option(
      '--allow-host <names...>',
      'host names by which clients reach it, beside localhost; needed beyond this machine',
    )
    .option('--allow-origin <origins...>', 'origins of browsers that may call it')
    .option(
      '--public-url <url>',
      'the address by which clients reach the proxy, which their proofs of possession are for',
      httpUrl,
    )
    .option(
      '--authorization-server <issuers...>',
      'identity providers whose access tokens are taken as passports, as Authorization: Bearer',
      issuerUrls,
    )
    .option('--scopes <scopes...>', 'what clients ask those for, such as api://tools/.default', oauthScopes)
    .option(
      '--amounts <file>',
      'JSON: for each tool its price in USD, or where the arguments hold it ("/amount")',
    )
    .option(
      '--settle <file>',
      'JSON: tools whose amount is held, and settled by their answers (true, or { "amount": "/structuredContent/cost" })',
    )
    .option(
      '--hide <pointers...>',
      'arguments that approvers are not shown, as JSON pointers ("/card/number"); they stay part of the request',
      pointers,
    )
    .option('--passport-file <file>', 'of a program: the passport, read again when the file changes')
    .option('--timeout <seconds>', 'until the MCP server begins to answer over HTTP', seconds, 300)
    .option('--sidecar <origin>', 'the sidecar; default: from the settings', origin)
    .option('--control-plane <origin>', 'the control plane, without /v1; default: from the settings', origin)
    .option(
      '--show-all-tools',
      'lists show tools whatever the passport permits; calls are decided all the same',
    )
    .addOption(
      new Option(
        '--pin <mode>',
        'tools that are not as they were first seen: observe reports them, enforce refuses them until a person accepts',
      )
        .choices(['observe', 'enforce'])
        .default('observe'),
    )
    .option(
      '--upstream-name <name>',
      'the name under which the tools are pinned; default: the address, or a hash of the command',
      upstreamName,
    )
    .option(
      '--answer-bytes-max <bytes>',
      'of one message of the server; longer ones are cut off with an error',
      answerBytes,
      proxyLimits.answerBytesDefault,
    )
    .option('--forward-passport', 'the MCP server gets the passport too')
    .option(
      '--accept-idempotency-keys',
      'a call with _meta["agent-trust/idempotency_key"] is charged once; for servers that run it once, too',
    )
    .option(
      '--dangerously-serve-without-decision',
      'calls pass while the sidecar gives no decision: unlimited, unrecorded, with revoked passports',
    )
    .addHelpText('after', () => `${examples}${host.help()}`)
    .action(async (words: readonly string[], options: GuardMcpOptions, command: Command) => {
      const serverCommand = [...(options.upstreamCommand ?? []), ...words];
      const fault = faultIn(options, serverCommand);
      if (fault !== null) return command.error(`error: ${fault}`);
      const { guardMcp } = await import('./guard-mcp.ts');
      host.setExitCode(await guardMcp({ options, serverCommand, host }));
    });
}

function faultIn(options: GuardMcpOptions, serverCommand: readonly string[]): string | null {
  if ((options.upstream === undefined) === (serverCommand.length === 0)) {
    return 'name the MCP server once: by --upstream URL, or by a command after --';
  }
  if (options.upstream !== undefined && options.passportFile !== undefined) {
    return '--passport-file is for a command: over HTTP each request shows its own passport';
  }
  if (options.publicUrl !== undefined && options.upstream === undefined) {
    return '--public-url is for --upstream: a command is reached at no address';
  }
  if (options.authorizationServer !== undefined && options.publicUrl === undefined) {
    return '--authorization-server needs --public-url: the metadata of the proxy names it';
  }
  if (options.scopes !== undefined && options.authorizationServer === undefined) {
    return '--scopes is for --authorization-server';
  }
  const isLocal = ['127.0.0.1', '::1', 'localhost'].includes(options.host);
  if (options.upstream !== undefined && !isLocal && (options.allowHost ?? options.publicUrl) === undefined) {
    return `--host ${options.host} needs --allow-host with the names by which clients reach this machine, or --public-url`;
  }
  return null;
}

function gateId(text: string): string {
  if (/^gate_[0-9a-zA-Z]{1,64}$/.test(text)) return text;
  throw new InvalidArgumentError('It is the id of a gate, gate_….');
}

function httpUrl(text: string): URL {
  const url = parseWebUrl(text);
  if (url?.hash === '') return url;
  throw new InvalidArgumentError('It is an address such as http://127.0.0.1:3000/mcp, without a user.');
}

function origin(text: string): string {
  const url = parseWebUrl(text);
  if (url !== null && url.pathname === '/' && url.search === '' && url.hash === '') return url.origin;
  throw new InvalidArgumentError('It is an origin such as http://127.0.0.1:8090.');
}

/** As they are written: issuers are compared by their texts. */
function issuerUrls(text: string, before: readonly string[] = []): readonly string[] {
  if (parseWebUrl(text) !== null && !text.includes('#')) return [...before, text];
  throw new InvalidArgumentError('It is the issuer of a provider, such as https://login.example.');
}

function oauthScopes(text: string, before: readonly string[] = []): readonly string[] {
  // RFC 6749 §3.3
  if (/^[!#-[\]-~]{1,200}$/.test(text)) return [...before, text];
  throw new InvalidArgumentError('It is a scope, without blanks and quotes.');
}

function portNumber(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new InvalidArgumentError('It is a number from 0 to 65535.');
}

function pointers(text: string, before: readonly Pointer[] = []): readonly Pointer[] {
  const pointer = parsePointer(text);
  if (pointer !== null) return [...before, pointer];
  throw new InvalidArgumentError('It is a JSON pointer such as /card/number.');
}

function upstreamName(text: string): string {
  if (text !== '' && text.length <= limits.mcpUpstreamCharsMax && isPlainText(text)) return text;
  throw new InvalidArgumentError(`It is a text of at most ${limits.mcpUpstreamCharsMax} plain characters.`);
}

function answerBytes(text: string): number {
  const { min, max } = proxyLimits.answerBytesRange;
  if (/^\d{1,8}$/.test(text) && Number(text) >= min && Number(text) <= max) return Number(text);
  throw new InvalidArgumentError(`It is a number from ${min} to ${max}.`);
}

function seconds(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 86_400) return Number(text);
  throw new InvalidArgumentError('It is a number from 1 to 86400.');
}
