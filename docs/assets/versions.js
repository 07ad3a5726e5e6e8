// Adds a version selector to a site built by `docs/publish.py`: `syncheckVersions` lists the versions, newest first.
{
  const own = document.currentScript.dataset.version;
  const list = [...document.scripts].find((script) => /\/versions\.js$/.test(script.src) && !script.dataset.version);
  const [newest] = syncheckVersions;
  const home = (version) => new URL(version === newest ? "./" : `./${version}/`, list.src).href;

  const choice = document.createElement("select");
  choice.className = "versions";
  choice.setAttribute("aria-label", "Version of the documentation");
  for (const version of syncheckVersions) {
    choice.append(new Option(version, home(version), version === own, version === own));
  }
  choice.addEventListener("change", () => location.assign(choice.value));
  (document.querySelector(".md-header__topic") || document.body).append(choice);

  if (own !== newest) {
    const hint = document.createElement("p");
    hint.className = "admonition warning old-version";
    const link = document.createElement("a");
    link.href = home(newest);
    link.textContent = `The newest version is ${newest}.`;
    hint.append(`This page is for version ${own}. `, link);
    (document.querySelector("article") || document.body).prepend(hint);
  }
}
