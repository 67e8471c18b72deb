"""The checks themselves. Run by run.py inside the environment that has the libraries."""
import importlib.metadata
import sys
import traceback

import anthropic_checks
import gemini_checks
import openai_checks
from server import Server

MODULES = (anthropic_checks, openai_checks, gemini_checks)


def run(name, check, server):
    """Runs one check; returns whether it passed."""
    try:
        check(server)
    except Exception as error:  # a library may raise anything at all: that is what is tested
        print(f"FAIL {name}: {type(error).__name__}: {error}")
        traceback.print_exc()
        return False
    print(f"ok   {name}", flush=True)
    return True


def clean(report):
    """Tells whether the strict server found nothing wrong with what the libraries sent."""
    for violation in report["violations"]:
        number = violation["request"]
        print(f"     request {number}: {violation['message']}")
        print(f"     {report['requests'][number - 1]['body']}")
    if report["unscripted"] or report["answersLeft"]:
        print(f"     {report['unscripted']} requests without an answer, "
              f"{report['answersLeft']} answers without a request")
    return not (report["violations"] or report["unscripted"] or report["answersLeft"])


def main():
    for library in ("anthropic", "openai", "google-genai"):
        print(f"     {library} {importlib.metadata.version(library)}")
    passed = failed = 0
    for module in MODULES:
        for check in module.CHECKS:
            server = Server(sys.argv[1])
            name = f"{module.__name__.removesuffix('_checks')}: {check.__doc__.strip()}"
            is_good = run(name, check, server)
            if not clean(server.close()):
                print(f"FAIL {name}: the server objects to what the library sent")
                is_good = False
            passed, failed = passed + is_good, failed + (not is_good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
