// A thin client of `syncheck lsp`, which provides all features.
import { commands, type ExtensionContext, window, workspace } from "vscode";
import { LanguageClient, TransportKind } from "vscode-languageclient/node";

let client: LanguageClient | undefined;

/** Return the configured command, with the workspace folder filled in. */
function commandLine(): string[] {
  const folder = workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  const words = workspace.getConfiguration("syncheck").get<string[]>("command", ["syncheck"]);
  return words.map((word) => word.replaceAll("${workspaceFolder}", folder));
}

async function start(): Promise<void> {
  const [command, ...words] = commandLine();
  client = new LanguageClient(
    "syncheck",
    "syncheck",
    { command, args: [...words, "lsp"], transport: TransportKind.stdio },
    {
      documentSelector: [
        { scheme: "file", language: "python" },
        { scheme: "vscode-notebook-cell", language: "python" },
      ],
    },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    void window.showErrorMessage(
      `syncheck did not start: ${error instanceof Error ? error.message : String(error)}. ` +
        "Install it with: pip install 'syncheck[lsp]', or name its command in the setting syncheck.command.",
    );
  }
}

async function stop(): Promise<void> {
  const running = client;
  client = undefined;
  await running?.dispose();
}

async function restart(): Promise<void> {
  await stop();
  await start();
}

export async function activate(context: ExtensionContext): Promise<void> {
  context.subscriptions.push(
    commands.registerCommand("syncheck.restart", restart),
    workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration("syncheck.command")) {
        await restart();
      }
    }),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  await stop();
}
