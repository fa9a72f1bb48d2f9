"""What each study is asked: requests whose fields carry their options, without heavy imports."""
