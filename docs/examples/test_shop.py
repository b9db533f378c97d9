# Tests against pets serve with pytest (docs/testing.md).
import json, os, pytest
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import Request, urlopen

def call(method, path, credential, body=None):
    """Requests a path below /v1/, or a developer tool such as /reset."""
    url = urljoin(os.environ["PETS_BASE_URL"] + "/", path)
    headers = {"Authorization": f"Bearer {os.environ[credential]}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, headers, method=method)) as response:
        return json.load(response)

@pytest.fixture(autouse=True)
def same_inventory():
    call("DELETE", "/faults", "PETS_SERVE_TOKEN")
    call("POST", "/reset", "PETS_SERVE_TOKEN")

def test_the_first_new_animal_gets_the_next_id():
    assert call("POST", "pets", "PETS_API_KEY", {"name": "Rex", "categoryId": 1})["id"] == 67

def test_a_service_that_fails():
    call("PUT", "/faults", "PETS_SERVE_TOKEN", [{"match": {"method": "POST"}, "answer": 503}])
    with pytest.raises(HTTPError, match="503"):
        call("POST", "pets", "PETS_API_KEY", {"name": "Rex", "categoryId": 1})
